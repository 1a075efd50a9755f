// Images in a sequence: where its tokens are, and what is left of images that are cut.
#include <doctest.h>

#include <algorithm>
#include <array>

#include "engine/sched/scheduler.h"

namespace infer {
namespace {

using Axes = std::array<int32_t, 3>;

/// An image of lines · columns results.
ModelImage image_of(int32_t lines, int32_t columns, int32_t first_token, bool axes = true) {
  auto rows = std::make_shared<ImageRows>();
  for (int32_t i = 0; i < lines * columns; ++i) rows->tokens.push_back(first_token - i);
  rows->columns = columns;
  rows->axes = axes;
  ModelImage image;
  image.tokens = rows->tokens;
  image.rows = std::move(rows);
  return image;
}

std::vector<int32_t> joined(std::initializer_list<std::vector<int32_t>> parts) {
  std::vector<int32_t> all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

std::vector<Axes> positions(const Sequence& sequence) {
  std::vector<Axes> found;
  for (size_t i = 0; i < sequence.tokens.size(); ++i) {
    found.push_back(sequence.position(static_cast<int64_t>(i)).axes);
  }
  return found;
}

TEST_CASE("without images a token is at its index") {
  Sequence sequence;
  sequence.append_given(std::vector<int32_t>{5, 6, 7}, false);
  CHECK(positions(sequence) == std::vector<Axes>{{0, 0, 0}, {1, 1, 1}, {2, 2, 2}});
}

TEST_CASE("an image's results have rows and columns, and the text goes on from its larger side") {
  const ModelImage wide = image_of(2, 3, -1);
  const ModelImage tall = image_of(3, 1, -100);
  Sequence sequence;
  sequence.append_given(joined({{5, 6}, wide.tokens, {7}, tall.tokens, {8, 9}}), false,
                        std::vector{wide, tall});
  CHECK(positions(sequence) == std::vector<Axes>{{0, 0, 0},
                                                 {1, 1, 1},  // text
                                                 {2, 2, 2},
                                                 {2, 2, 3},
                                                 {2, 2, 4},  // the first line
                                                 {2, 3, 2},
                                                 {2, 3, 3},
                                                 {2, 3, 4},  // the second line
                                                 {5, 5, 5},  // text
                                                 {6, 6, 6},
                                                 {6, 7, 6},
                                                 {6, 8, 6},  // the second image
                                                 {9, 9, 9},
                                                 {10, 10, 10}});
  // What comes later does not change it.
  std::vector<Axes> expected = positions(sequence);
  sequence.append_generated(11);
  expected.push_back({11, 11, 11});
  CHECK(positions(sequence) == expected);
}

TEST_CASE("images side by side, and the same one twice") {
  const ModelImage square = image_of(2, 2, -1);
  Sequence sequence;
  sequence.append_given(joined({square.tokens, square.tokens, {1}}), false,
                        std::vector{square, square});
  REQUIRE(sequence.images.size() == 2);
  CHECK(sequence.images[0].first == 0);
  CHECK(sequence.images[1].first == 4);
  CHECK(positions(sequence) == std::vector<Axes>{{0, 0, 0},
                                                 {0, 0, 1},
                                                 {0, 1, 0},
                                                 {0, 1, 1},
                                                 {2, 2, 2},
                                                 {2, 2, 3},
                                                 {2, 3, 2},
                                                 {2, 3, 3},
                                                 {4, 4, 4}});
}

TEST_CASE("results of towers without axes have places of their own in the text") {
  const ModelImage image = image_of(2, 3, -1, false);
  Sequence sequence;
  sequence.append_given(joined({{5}, image.tokens, {7}}), false, std::vector{image});
  std::vector<Axes> expected;
  for (int32_t i = 0; i < 8; ++i) expected.push_back({i, i, i});
  CHECK(positions(sequence) == expected);
}

TEST_CASE("an image may have tokens of the vocabulary before, between and behind its pictures") {
  const ModelImage image = image_of(2, 3, -1, false);
  auto rows = std::make_shared<ImageRows>(*image.rows);
  rows->tokens = joined({{5, 6}, image.tokens, {5, 7}, {-20, -21}, {5}});
  const ModelImage tiled{rows->tokens, rows};
  // What comes before begins as the image does.
  Sequence sequence;
  sequence.append_given(joined({{5}, {5, 6}, {9}, tiled.tokens, tiled.tokens, {5}}), false,
                        std::vector{tiled, tiled});
  REQUIRE(sequence.images.size() == 2);
  CHECK(sequence.images[0].first == 4);
  CHECK(sequence.images[1].first == 4 + rows->count());
  for (int64_t i = 0; i < std::ssize(sequence.tokens); ++i) {
    const int64_t row = i - 4;
    const bool outside = row < 0 || row >= 2 * rows->count();
    CHECK(sequence.within_image(i) == (!outside && (row + 1) % rows->count() != 0));
  }
  sequence.cut(static_cast<size_t>(4 + rows->count() + 1));
  REQUIRE(sequence.images.size() == 2);
  CHECK(sequence.images[1].count == 1);
  sequence.cut(static_cast<size_t>(4 + rows->count()));
  CHECK(sequence.images.size() == 1);
}

TEST_CASE("further turns bring further images") {
  const ModelImage one = image_of(2, 3, -1);
  const ModelImage two = image_of(2, 2, -50);
  Sequence whole;
  whole.append_given(joined({{5}, one.tokens, {6, 7}, {8}, two.tokens, {9}}), false,
                     std::vector{one, two});
  Sequence turns;
  turns.append_given(joined({{5}, one.tokens, {6}}), false, std::vector{one});
  turns.append_generated(7);
  turns.append_given(joined({{8}, two.tokens, {9}}), false, std::vector{two});
  CHECK(turns.tokens == whole.tokens);
  CHECK(positions(turns) == positions(whole));
  REQUIRE(turns.images.size() == 2);
  CHECK(turns.images[1].first == whole.images[1].first);
  CHECK(turns.images[1].rows == two.rows);
}

TEST_CASE("wherever a sequence is cut, what is left stays where it is and can be completed") {
  const ModelImage one = image_of(2, 3, -1);
  const ModelImage two = image_of(3, 2, -50);
  const std::vector<int32_t> tokens = joined({{5, 6}, one.tokens, {7}, two.tokens, {8}});
  Sequence whole;
  whole.append_given(tokens, false, std::vector{one, two});
  const std::vector<Axes> expected = positions(whole);
  for (size_t length = 0; length <= tokens.size() + 2; ++length) {
    CAPTURE(length);
    Sequence sequence;
    sequence.append_given(tokens, false, std::vector{one, two});
    sequence.cut(length);
    const size_t left = std::min(length, tokens.size());
    REQUIRE(sequence.tokens.size() == left);
    CHECK(positions(sequence) ==
          std::vector(expected.begin(), expected.begin() + static_cast<ptrdiff_t>(left)));
    // Images of which nothing is left are gone; of a cut one there is the beginning.
    int64_t held = 0;
    for (const Sequence::PlacedImage& image : sequence.images) {
      CHECK(image.count > 0);
      CHECK(image.first + image.count <= static_cast<int64_t>(left));
      held += image.count;
    }
    CHECK(held == std::ranges::count_if(sequence.tokens, [](int32_t token) { return token < 0; }));
    // Between images the rest can be given again.
    const bool inside = (length > 2 && length < 8) || (length > 9 && length < 15);
    if (inside || length > tokens.size()) continue;
    std::vector<ModelImage> missing;
    if (length <= 2) missing.push_back(one);
    if (length <= 9) missing.push_back(two);
    sequence.append_given(std::span(tokens).subspan(length), false, missing);
    CHECK(positions(sequence) == expected);
    REQUIRE(sequence.images.size() == 2);
    CHECK(sequence.images[1].first == 9);
    CHECK(sequence.images[1].count == 6);
  }
}

TEST_CASE("a text after a part of an image is behind what is left of it") {
  const ModelImage image = image_of(3, 4, -1);
  for (size_t left = 1; left < 12; ++left) {
    CAPTURE(left);
    Sequence sequence;
    sequence.append_given(joined({{5}, image.tokens}), false, std::vector{image});
    sequence.cut(1 + left);
    sequence.append_given(std::vector<int32_t>{7, 8}, false);
    int32_t furthest = 0;
    for (size_t i = 0; i <= left; ++i) {
      const Axes at = sequence.position(static_cast<int64_t>(i)).axes;
      furthest = std::max({furthest, at[0], at[1], at[2]});
    }
    const Axes next = sequence.position(static_cast<int64_t>(1 + left)).axes;
    CHECK(next[0] == next[1]);
    CHECK(next[0] > furthest);
    CHECK(sequence.position(static_cast<int64_t>(2 + left)).axes[0] == next[0] + 1);
  }
}

}  // namespace
}  // namespace infer
