// Where weights and cache lie on a machine with several memory nodes.
#include "engine/core/platform/memory_nodes.h"

#include <doctest.h>

#include <atomic>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/cpu/device.h"
#include "backends/cpu/product.h"
#include "tests/support.h"

namespace infer {
namespace {

constexpr int64_t kPage = 4096;

/// With plain kernels: where weights lie does not depend on the instruction set.
std::unique_ptr<cpu::CpuDevice> open_cpu(bool repack) {
  DeviceOptions options;
  options.repack = repack;
  options.threads = 5;
  return std::make_unique<cpu::CpuDevice>(cpu::all_isas().front(), options);
}

/// Whether there are several nodes, and the system tells what lies where; else says what is
/// skipped. Containers often refuse to tell, and then refuse to spread the cache as well.
bool told(const std::string& what) {
  const std::vector<std::byte> here(1);
  const bool several = !os::memory_nodes().empty();
  if (several && os::node_of(here.data()) >= 0) return true;
  test::skipped(what + " at memory nodes: " +
                (several ? "the system does not tell what lies where" : "this machine has one"));
  return false;
}

/// Whether a byte that was written lies at a node. A system that moves pages to where they are used
/// takes them out of its tables now and then until they are read, and then moves them to the
/// reader.
bool lies_at(const std::byte* at, int node) {
  for (int i = 0; i < 100; ++i) {
    const int found = os::node_of(at);
    if (found >= 0) return found == node;
    static_cast<void>(*static_cast<const volatile std::byte*>(at));
  }
  return false;
}

TEST_CASE("memory nodes: what a thread multiplies lies at its own") {
  if (!told("weights")) return;
  for (const bool repack : {true, false}) {
    for (const int64_t experts : {1, 3}) {
      CAPTURE(repack);
      CAPTURE(experts);
      const auto device = open_cpu(repack);
      ThreadPool& pool = *device->threads();
      REQUIRE(pool.nodes().size() >= 2);
      // 24 MiB a matrix of Q4_0, in a buffer that is worth large pages, from an odd place on.
      const TensorDesc desc = tensor(DType::q4_0, 4096, 10922, experts);
      const auto buffer = device->alloc(int64_t{96} << 20, Purpose::weights);
      REQUIRE(buffer.has_value());
      const MemoryRef to{buffer->get(), 64 * 777};
      const ReadFn read = [](uint64_t, std::span<std::byte> out) {
        std::memset(out.data(), 1, out.size());
        return Status();
      };
      REQUIRE(device->load_weight(desc, read, to).ok());

      const cpu::Product product = cpu::Product::choose(device->context(), desc);
      CHECK(product.packed == repack);
      const int64_t unit = repack ? product.layout.group_bytes() : kPage;
      const int64_t matrix = repack ? product.layout.matrix_bytes() : desc.extent_bytes();
      const int64_t matrices = repack ? experts : 1;
      std::atomic<int64_t> pages = 0;
      std::atomic<int64_t> elsewhere = 0;
      pool.run([&](int thread) {
        const Range part = split_range(matrix / unit, thread, pool.size());
        for (int64_t m = 0; m < matrices; ++m) {
          for (int64_t at = part.begin * unit; at < part.end * unit; at += kPage) {
            const std::byte* byte = to.buffer->address() + to.offset + m * matrix + at;
            ++pages;
            if (!lies_at(byte, pool.node(thread)->id)) ++elsewhere;
          }
        }
      });
      // Where parts of two nodes meet, one large page has some of both.
      constexpr int64_t kLarge = (int64_t{2} << 20) / kPage;
      CHECK(elsewhere.load() <= matrices * (std::ssize(pool.nodes()) - 1) * kLarge + pages / 100);
    }
  }
}

TEST_CASE("memory nodes: the cache lies at all of them") {
  const auto nodes = os::memory_nodes();
  if (!told("cache")) return;
  const auto device = open_cpu(true);
  constexpr int64_t kPages = 4096;
  const auto buffer = device->alloc(kPages * kPage, Purpose::kv);
  REQUIRE(buffer.has_value());
  std::memset((*buffer)->address(), 1, static_cast<size_t>(kPages * kPage));
  std::vector<int64_t> of_node(static_cast<size_t>(nodes.back().id) + 1);
  for (int64_t p = 0; p < kPages; ++p) {
    const int node = os::node_of((*buffer)->address() + p * kPage);
    REQUIRE(node >= 0);
    ++of_node[static_cast<size_t>(node)];
  }
  for (const os::MemoryNode& node : nodes) {
    // Memory is given in large pages where the system does so by itself.
    const int64_t part = kPages / std::ssize(nodes);
    CHECK(of_node[static_cast<size_t>(node.id)] > part / 2);
  }
}

}  // namespace
}  // namespace infer
