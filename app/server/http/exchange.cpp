#include "server/http/exchange.h"

#include <algorithm>

namespace infer::server {

std::string_view Request::header(std::string_view lower_case_name) const {
  for (const auto& [name, value] : headers) {
    if (name == lower_case_name) return value;
  }
  return {};
}

bool Request::has_header(std::string_view lower_case_name) const {
  return std::ranges::any_of(headers,
                             [&](const auto& header) { return header.first == lower_case_name; });
}

}  // namespace infer::server
