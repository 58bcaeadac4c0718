// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_MODEL_IMPL_VALUE_PLAN_HPP
#define SHARD_MODEL_IMPL_VALUE_PLAN_HPP

#include <vector>

#include "shard/base/types.hpp"
#include "shard/model/arena.hpp"

namespace shard::impl {

/// A value between a model's operations, for the plan of memory. Inputs and outputs of the model
/// are the user's memory.
struct PlannedValue {
  index_t bytes = 0;      ///< with its halo
  int input     = -1;     ///< the number of the model's input that it is
  int output    = -1;     ///< the number of the model's output that it is
  int copy_of   = -1;     ///< the number of the model's input that it is a copy of
  bool read     = false;  ///< a pullback or pushforward reads it
  int lives_in  = -1;     ///< the value whose memory it uses: the output of the one operation on it
};

/// An operation of a model, for the plan of memory.
struct PlannedOperation {
  std::vector<int> inputs;   ///< values
  int output = -1;           ///< a value
  std::vector<bool> passes;  ///< whether the adjoint of an input is that of the output, unchanged
  bool reads = false;        ///< its pullback or pushforward reads its inputs
};

/// A tangent or an adjoint. It has the shape of a value.
struct PlannedBuffer {
  int value  = -1;
  int piece  = Lifetimes::none;  ///< of the arena; none: the user's memory
  int input  = -1;               ///< the model's input whose adjoint it is a part of
  int output = -1;               ///< the model's output whose adjoint it is
};

/// to = a + b, or a copy of a (b negative). Numbers of buffers.
struct PlannedSum {
  int to, a, b;
};

/// The pullback of an operation.
struct PlannedPullback {
  int operation = -1;              ///< none: only sums
  std::vector<PlannedSum> before;  ///< these first
  int dy = -1;                     ///< a buffer
  std::vector<int> dx;             ///< for each input a buffer; negative: none
  std::vector<PlannedSum> after;   ///< then these
};

/// When a model's values, their adjoints and tangents are in use, and how adjoints of values with
/// several readers are summed. The order of operations is that of their records.
///
/// An adjoint is written by the last reader's pullback (the first to run), in the value's own
/// buffer; others write a buffer of their own that is added. Where an operation passes its output's
/// adjoint on unchanged (a sum), that is added without a copy.
class ValuePlan {
 public:
  std::vector<PlannedValue> values;
  std::vector<PlannedOperation> operations;

  /// Decides which values share memory and which are read. Call it after all values and operations
  /// are listed.
  void close();

  /// Adds the values to an arena. With `apart`, values that are read are stored in two bytes, and
  /// have full-width memory only while an operation works on them; otherwise they keep it. Copies
  /// of the model's inputs keep it always.
  void place_values(Lifetimes& arena, bool apart);
  /// Adds adjoints to the arena, and makes the program of the pullback.
  void place_adjoints(Lifetimes& arena);
  /// Adds tangents to the arena.
  void place_tangents(Lifetimes& arena);

  /// The piece of a value's memory; none: the user's memory.
  int piece(int value) const { return pieces_[index(home(value))]; }
  /// The value whose memory it uses, perhaps itself.
  int home(int value) const;
  /// Whether it is stored elsewhere between apply and pullback.
  bool is_stored(int value) const;
  /// The number of the last operation that reads it in apply; -1 if none does.
  int last_reader(int value) const { return last_reader_[index(value)]; }

  std::vector<PlannedBuffer> adjoints;     ///< after place_adjoints
  std::vector<PlannedPullback> pullbacks;  ///< the program, after place_adjoints
  std::vector<PlannedBuffer> tangents;     ///< one for each value, after place_tangents

 private:
  struct Gathered {
    int own = -1;             ///< the buffer that has a part of the adjoint
    std::vector<int> passed;  ///< buffers that are to be added
  };
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }

  bool is_external(int value) const;
  int new_adjoint(Lifetimes& arena, int value);
  static void add_passed(Gathered& into, std::vector<PlannedSum>& sums, std::vector<int>& done);
  /// The values that operation `o` reads in pullback and pushforward have memory while `step` runs.
  template <class Step>
  void with_stored(Lifetimes& arena, int o, const Step& step);

  std::vector<int> pieces_, last_reader_, readers_;
  bool apart_ = false;
};

}  // namespace shard::impl

#endif
