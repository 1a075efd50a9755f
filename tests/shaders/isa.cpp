#include "tests/shaders/isa.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <deque>
#include <map>
#include <string>
#include <vector>

namespace infer::vulkan {
namespace {

struct Code {
  std::vector<std::string_view> instructions;
  std::map<std::string_view, size_t> blocks;  ///< where they begin
};

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

Code read(std::string_view text) {
  Code code;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    line = trimmed(line.substr(0, line.find(';')));
    if (line.empty()) continue;
    if (line.starts_with("BB") && line.ends_with(':')) {
      line.remove_suffix(1);
      code.blocks[line] = code.instructions.size();
    } else {
      code.instructions.push_back(line);
    }
  }
  return code;
}

std::string_view opcode(std::string_view instruction) {
  return instruction.substr(0, instruction.find(' '));
}

bool is_load(std::string_view op) {
  return op.starts_with("global_load") || op.starts_with("flat_load") ||
         op.starts_with("buffer_load");
}

/// Bytes a lane.
int64_t bytes_of(std::string_view op) {
  const auto has = [&](std::string_view part) { return op.find(part) != std::string_view::npos; };
  if (has("x4") || has("b128")) return 16;
  if (has("x3") || has("b96")) return 12;
  if (has("x2") || has("b64")) return 8;
  if (has("byte") || has("u8") || has("i8")) return 1;
  if (has("short") || has("16")) return 2;
  return 4;
}

/// How many loads may be outstanding behind a wait; -1: it waits for no loads.
int64_t wait_of(std::string_view instruction) {
  constexpr std::string_view kCount = "vmcnt(";
  const size_t at = instruction.find(kCount);
  if (at == std::string_view::npos) return -1;
  int64_t count = 0;
  std::from_chars(instruction.data() + at + kCount.size(), instruction.data() + instruction.size(),
                  count);
  return count;
}

struct Loop {
  size_t begin = 0, end = 0;
};

std::vector<Loop> loops_of(const Code& code) {
  std::vector<Loop> loops;
  for (size_t i = 0; i < code.instructions.size(); ++i) {
    const std::string_view op = opcode(code.instructions[i]);
    if (!op.starts_with("s_branch") && !op.starts_with("s_cbranch")) continue;
    const auto target = code.blocks.find(trimmed(code.instructions[i].substr(op.size())));
    if (target != code.blocks.end() && target->second <= i)
      loops.push_back({target->second, i + 1});
  }
  return loops;
}

/// What branches of the loop jump over, if there is a barrier in it.
std::vector<Loop> seldom_in(const Code& code, const Loop& loop) {
  std::vector<Loop> seldom;
  for (size_t i = loop.begin; i < loop.end; ++i) {
    const std::string_view op = opcode(code.instructions[i]);
    if (!op.starts_with("s_cbranch")) continue;
    const auto target = code.blocks.find(trimmed(code.instructions[i].substr(op.size())));
    if (target == code.blocks.end() || target->second <= i || target->second >= loop.end) continue;
    const auto begin = code.instructions.begin() + static_cast<ptrdiff_t>(i) + 1;
    const auto end = code.instructions.begin() + static_cast<ptrdiff_t>(target->second);
    if (std::any_of(begin, end, [](std::string_view s) { return s.starts_with("s_barrier"); })) {
      seldom.push_back({i + 1, target->second});
    }
  }
  return seldom;
}

bool loads_in(const Code& code, const Loop& loop) {
  return std::any_of(code.instructions.begin() + static_cast<ptrdiff_t>(loop.begin),
                     code.instructions.begin() + static_cast<ptrdiff_t>(loop.end),
                     [](std::string_view line) { return is_load(opcode(line)); });
}

bool is_within(const Loop& inner, const Loop& outer) {
  return inner.begin >= outer.begin && inner.end <= outer.end &&
         inner.end - inner.begin < outer.end - outer.begin;
}

LoopCost cost_of(const Code& code, const Loop& loop, const std::vector<Loop>& all,
                 int64_t passes_inside) {
  LoopCost cost;
  std::deque<int64_t> outstanding;
  int64_t bytes = 0;
  const std::vector<Loop> seldom = seldom_in(code, loop);
  const auto holds = [](size_t i) {
    return [i](const Loop& part) { return part.begin <= i && i < part.end; };
  };
  for (int pass = 0; pass < 2; ++pass) {  // loads may be waited for in the next pass
    for (size_t i = loop.begin; i < loop.end; ++i) {
      if (std::ranges::any_of(seldom, holds(i))) continue;
      const std::string_view line = code.instructions[i];
      const std::string_view op = opcode(line);
      if (is_load(op)) {
        outstanding.push_back(bytes_of(op));
        bytes += outstanding.back();
        cost.in_flight = std::max(cost.in_flight, bytes);
      } else if (const int64_t left = wait_of(line); left >= 0) {
        while (static_cast<int64_t>(outstanding.size()) > left) {
          bytes -= outstanding.front();
          outstanding.pop_front();
        }
      }
      if (pass > 0) continue;
      const bool is_inside = std::ranges::any_of(
          all, [&](const Loop& inner) { return is_within(inner, loop) && holds(i)(inner); });
      const int64_t times = is_inside ? passes_inside : 1;
      if (is_load(op)) {
        cost.loads += times;
      } else if (op.starts_with("v_dot")) {
        cost.dots += times;
      } else if (op.starts_with("v_wmma")) {
        cost.matrices += times;
      } else if (op.starts_with("v_")) {
        cost.vector += times;
      } else if (op.starts_with("ds_")) {
        cost.shared += times;
      } else if (op.starts_with("s_load") || op.starts_with("s_buffer_load")) {
        cost.scalar_loads += times;
      } else if (op.starts_with("s_") && !op.starts_with("s_waitcnt") &&
                 !op.starts_with("s_clause") && !op.starts_with("s_nop") &&
                 !op.starts_with("s_delay_alu")) {
        cost.scalar += times;
      }
    }
  }
  return cost;
}

}  // namespace

LoopCost inner_loop(std::string_view text, int64_t passes_inside) {
  const Code code = read(text);
  const std::vector<Loop> all = loops_of(code);
  std::vector<Loop> loading = all;
  std::erase_if(loading, [&](const Loop& loop) { return !loads_in(code, loop); });
  LoopCost most;
  for (const Loop& loop : loading) {
    if (std::ranges::any_of(loading, [&](const Loop& other) { return is_within(other, loop); })) {
      continue;
    }
    const LoopCost cost = cost_of(code, loop, all, passes_inside);
    if (cost.issued() > most.issued()) most = cost;
  }
  return most;
}

}  // namespace infer::vulkan
