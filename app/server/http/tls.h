// TLS by OpenSSL: TLS 1.2 and 1.3. For http_server.cpp and connection.cpp, which include Asio.
#pragma once

#include <boost/asio/ssl/context.hpp>
#include <memory>

#include "infer/status.hpp"
#include "server/http/http_server.h"

namespace infer::server {

/// Reads the files. bad_file: the message names the file that is wrong.
Result<std::shared_ptr<boost::asio::ssl::context>> read_tls(const TlsFiles& files);

}  // namespace infer::server
