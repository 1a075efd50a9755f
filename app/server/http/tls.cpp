#include <utility>  // before Asio, which lacks it
//
#include "server/http/tls.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>

namespace infer::server {
namespace {

tl::unexpected<Status> wrong(const std::string& file, const std::string& what) {
  return tl::unexpected(Status(StatusCode::bad_file, fmt::format("{}: {}", file, what)));
}

}  // namespace

Result<std::shared_ptr<boost::asio::ssl::context>> read_tls(const TlsFiles& files) {
  namespace ssl = boost::asio::ssl;
  for (const std::string& file : {files.certificate, files.key}) {
    if (!std::ifstream(file)) {
      return wrong(file, fmt::format("cannot open the file: {}", std::strerror(errno)));
    }
  }
  boost::system::error_code failed;
  auto context = std::make_shared<ssl::context>(ssl::context::tls_server);
  context->set_options(ssl::context::default_workarounds | ssl::context::no_compression, failed);
  SSL_CTX* const native = context->native_handle();
  SSL_CTX_set_min_proto_version(native, TLS1_2_VERSION);
  SSL_CTX_set_options(native, SSL_OP_NO_RENEGOTIATION);
  context->use_certificate_chain_file(files.certificate, failed);
  if (failed) {
    return wrong(files.certificate, "expected a certificate in PEM: " + failed.message());
  }
  // A server cannot ask for a passphrase: it may start without a terminal, and reads again later.
  bool encrypted = false;
  context->set_password_callback([&encrypted](size_t, ssl::context::password_purpose) {
    encrypted = true;
    return std::string();
  });
  context->use_private_key_file(files.key, ssl::context::pem, failed);
  if (encrypted) {
    return wrong(files.key,
                 "the key is encrypted: expected one without a passphrase "
                 "(openssl pkey -in FILE -out PLAIN)");
  }
  if (failed) {
    return wrong(files.key,
                 "expected the private key of the certificate, in PEM: " + failed.message());
  }
  // A key of another kind than the certificate's is not refused above.
  if (SSL_CTX_check_private_key(native) != 1) {
    return wrong(files.key, fmt::format("expected the private key of the certificate {}: this "
                                        "key is another one's",
                                        files.certificate));
  }
  return context;
}

}  // namespace infer::server
