// Files that are part of the program: the page at /, and the description of all paths.
#include <fmt/format.h>

#include "platform/embed.h"
#include "server/api/api.h"

INFER_EMBED(infer_page_html, INFER_PAGE_FOLDER "/page.html", 16);
INFER_EMBED(infer_page_css, INFER_PAGE_FOLDER "/page.css", 16);
INFER_EMBED(infer_openapi, INFER_PAGE_FOLDER "/openapi.json", 16);
INFER_EMBED(infer_markdown_js, INFER_PAGE_FOLDER "/markdown.js", 16);
INFER_EMBED(infer_page_js, INFER_PAGE_FOLDER "/page.js", 16);

namespace infer::server {
namespace {

void send_file(Exchange& exchange, std::string_view type, const unsigned char* begin,
               const unsigned char* end) {
  // Nothing but these files may run, and they may talk to this server alone.
  constexpr const char* kPolicy =
      "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src "
      "'self'; "
      "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
  exchange.send(200, fmt::format("{}; charset=utf-8", type), std::string(begin, end),
                {{"Content-Security-Policy", kPolicy},
                 {"X-Content-Type-Options", "nosniff"},
                 {"Referrer-Policy", "no-referrer"},
                 {"Cache-Control", "no-cache"}});
}

}  // namespace

void page_html(const Call& call) {
  send_file(*call.exchange, "text/html", infer_page_html, infer_page_html_end);
}
void page_css(const Call& call) {
  send_file(*call.exchange, "text/css", infer_page_css, infer_page_css_end);
}
void openapi(const Call& call) {
  call.exchange->send(200, "application/json", std::string(infer_openapi, infer_openapi_end));
}
void markdown_js(const Call& call) {
  send_file(*call.exchange, "text/javascript", infer_markdown_js, infer_markdown_js_end);
}
void page_js(const Call& call) {
  send_file(*call.exchange, "text/javascript", infer_page_js, infer_page_js_end);
}

}  // namespace infer::server
