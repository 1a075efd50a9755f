#include <utility>  // before Asio, which lacks it
//
#include "server/http/tls.h"

#include <fmt/format.h>

namespace infer::server {

Result<std::shared_ptr<boost::asio::ssl::context>> read_tls(const TlsFiles& files) {
  namespace ssl = boost::asio::ssl;
  boost::system::error_code failed;
  auto context = std::make_shared<ssl::context>(ssl::context::tls_server);
  const auto wrong = [&](const std::string& file, const char* expected) {
    return tl::unexpected(Status(StatusCode::bad_file, fmt::format("{}: expected {}: {}", file,
                                                                   expected, failed.message())));
  };
  context->set_options(ssl::context::default_workarounds | ssl::context::no_compression, failed);
  SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
  SSL_CTX_set_options(context->native_handle(), SSL_OP_NO_RENEGOTIATION);
  context->use_certificate_chain_file(files.certificate, failed);
  if (failed) return wrong(files.certificate, "a certificate in PEM");
  context->use_private_key_file(files.key, ssl::context::pem, failed);
  if (failed) return wrong(files.key, "the private key of the certificate, in PEM");
  return context;
}

}  // namespace infer::server
