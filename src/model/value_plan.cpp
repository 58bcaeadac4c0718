// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The memory of a model's values, and the program of its pullback.
#include "shard/model/impl/value_plan.hpp"

#include <algorithm>
#include <cstddef>

namespace shard::impl {

bool ValuePlan::is_external(int value) const {
  const PlannedValue& v = values[index(home(value))];
  return v.input >= 0 || v.output >= 0;
}

int ValuePlan::home(int value) const {
  while (values[index(value)].lives_in >= 0) value = values[index(value)].lives_in;
  return value;
}

bool ValuePlan::is_stored(int value) const {
  const PlannedValue& v = values[index(value)];
  return apart_ && v.read && v.copy_of < 0 && !is_external(value);
}

void ValuePlan::close() {
  last_reader_.assign(values.size(), -1);
  readers_.assign(values.size(), 0);
  for (std::size_t o = 0; o < operations.size(); ++o)
    for (const int v : operations[o].inputs) {
      last_reader_[index(v)] = static_cast<int>(o);
      ++readers_[index(v)];
      if (operations[o].reads) values[index(v)].read = true;
    }
  // a sum can be written over one of its terms, if nobody else needs that
  for (const PlannedOperation& o : operations) {
    if (!std::all_of(o.passes.begin(), o.passes.end(), [](bool p) { return p; })) continue;
    for (const int v : o.inputs) {
      PlannedValue& term = values[index(v)];
      if (readers_[index(v)] != 1 || term.read || term.input >= 0 || term.output >= 0) continue;
      term.lives_in = o.output;
      break;
    }
  }
}

void ValuePlan::place_values(Lifetimes& arena, bool apart) {
  apart_ = apart;
  pieces_.assign(values.size(), Lifetimes::none);
  std::vector<int> last(values.size(), -1);  // by home
  std::vector<bool> always(values.size(), false);
  for (std::size_t v = 0; v < values.size(); ++v) {
    const int at    = home(static_cast<int>(v));
    last[index(at)] = std::max(last[index(at)], last_reader_[v]);
    if (values[v].read && (!apart || values[v].copy_of >= 0)) always[index(at)] = true;
  }
  for (std::size_t v = 0; v < values.size(); ++v)
    if (home(static_cast<int>(v)) == static_cast<int>(v) && !is_external(static_cast<int>(v)))
      pieces_[v] = arena.add(values[v].bytes);
  std::vector<bool> begun(values.size(), false);
  for (std::size_t o = 0; o < operations.size(); ++o) {
    const int out = home(operations[o].output);
    if (!always[index(out)] && !begun[index(out)]) {
      begun[index(out)] = true;
      arena.begin(pieces_[index(out)]);
    }
    std::vector<int> done;  // a value may be two inputs of one operation
    for (const int v : operations[o].inputs) done.push_back(home(v));
    done.push_back(out);
    std::sort(done.begin(), done.end());
    done.erase(std::unique(done.begin(), done.end()), done.end());
    for (const int v : done)
      if (!always[index(v)] && begun[index(v)] && last[index(v)] <= static_cast<int>(o))
        arena.end(pieces_[index(v)]);
  }
}

template <class Step>
void ValuePlan::with_stored(Lifetimes& arena, int o, const Step& step) {
  const PlannedOperation& operation = operations[index(o)];
  std::vector<int> stored;
  if (operation.reads)
    for (const int v : operation.inputs)
      if (is_stored(v)) stored.push_back(v);
  std::sort(stored.begin(), stored.end());
  stored.erase(std::unique(stored.begin(), stored.end()), stored.end());
  for (const int v : stored) arena.begin(piece(v));
  step();
  for (const int v : stored) arena.end(piece(v));
}

int ValuePlan::new_adjoint(Lifetimes& arena, int value) {
  PlannedBuffer buffer;
  buffer.value = value;
  buffer.input = std::max(values[index(value)].input, values[index(value)].copy_of);
  buffer.piece = arena.add(values[index(value)].bytes);
  arena.begin(buffer.piece);
  adjoints.push_back(buffer);
  return static_cast<int>(adjoints.size()) - 1;
}

void ValuePlan::add_passed(Gathered& into, std::vector<PlannedSum>& sums, std::vector<int>& done) {
  for (const int a : into.passed) sums.push_back({into.own, into.own, a});
  done.insert(done.end(), into.passed.begin(), into.passed.end());
  into.passed.clear();
}

void ValuePlan::place_adjoints(Lifetimes& arena) {
  std::vector<Gathered> of(values.size());
  for (std::size_t v = 0; v < values.size(); ++v)
    if (values[v].output >= 0) {
      PlannedBuffer given;
      given.value  = static_cast<int>(v);
      given.output = values[v].output;
      adjoints.push_back(given);
      of[v].passed.push_back(static_cast<int>(adjoints.size()) - 1);
    }
  // the adjoint of a model's input is the user's memory: the first buffer of it
  const auto begin_own = [&](int v) {
    const int input = values[index(v)].input;
    if (input < 0) return new_adjoint(arena, v);
    PlannedBuffer given;
    given.value = v;
    given.input = input;
    adjoints.push_back(given);
    return static_cast<int>(adjoints.size()) - 1;
  };
  // several passed buffers need one of their own
  const auto settle = [&](int v, std::vector<PlannedSum>& sums) {
    Gathered& g             = of[index(v)];
    g.own                   = begin_own(v);
    const std::size_t first = std::min<std::size_t>(g.passed.size(), 2);
    sums.push_back({g.own, g.passed[0], first == 2 ? g.passed[1] : -1});
    std::vector<int> done(g.passed.begin(), g.passed.begin() + static_cast<std::ptrdiff_t>(first));
    g.passed.erase(g.passed.begin(), g.passed.begin() + static_cast<std::ptrdiff_t>(first));
    add_passed(g, sums, done);
    for (const int buffer : done) arena.end(adjoints[index(buffer)].piece);
  };

  for (int o = static_cast<int>(operations.size()) - 1; o >= 0; --o) {
    const PlannedOperation& operation = operations[index(o)];
    Gathered& result                  = of[index(operation.output)];
    if (result.own < 0 && result.passed.empty()) continue;  // nothing depends on it
    PlannedPullback pull;
    pull.operation = o;
    if (result.own < 0 && result.passed.size() > 1) settle(operation.output, pull.before);
    pull.dy             = result.own >= 0 ? result.own : result.passed[0];
    const int dy_memory = adjoints[index(pull.dy)].piece;
    pull.dx.assign(operation.inputs.size(), -1);
    with_stored(arena, o, [&] {
      std::vector<int> done;  // after the pullback and the sums
      for (std::size_t i = 0; i < operation.inputs.size(); ++i) {
        const int v = operation.inputs[i];
        Gathered& g = of[index(v)];
        if (operation.passes[i]) {
          if (g.own >= 0) {
            pull.after.push_back({g.own, g.own, pull.dy});
          } else {
            arena.hold(dy_memory);
            g.passed.push_back(pull.dy);
          }
        } else if (g.own < 0) {
          g.own      = begin_own(v);
          pull.dx[i] = g.own;
          add_passed(g, pull.after, done);
        } else {
          pull.dx[i] = new_adjoint(arena, v);
          pull.after.push_back({g.own, g.own, pull.dx[i]});
          done.push_back(pull.dx[i]);
        }
      }
      for (const int buffer : done) arena.end(adjoints[index(buffer)].piece);
      arena.end(dy_memory);
    });
    pullbacks.push_back(std::move(pull));
  }
  PlannedPullback rest;
  for (std::size_t v = 0; v < values.size(); ++v)
    if (values[v].input >= 0 && of[v].own < 0) {
      if (of[v].passed.empty()) {
        begin_own(static_cast<int>(v));
        rest.before.push_back({static_cast<int>(adjoints.size()) - 1, -1, -1});  // zero
      } else {
        settle(static_cast<int>(v), rest.before);
      }
    }
  if (!rest.before.empty()) pullbacks.push_back(std::move(rest));
}

void ValuePlan::place_tangents(Lifetimes& arena) {
  tangents.assign(values.size(), {});
  std::vector<int> last(values.size(), -1);
  for (std::size_t v = 0; v < values.size(); ++v) {
    const int at      = home(static_cast<int>(v));
    last[index(at)]   = std::max(last[index(at)], last_reader_[v]);
    tangents[v].value = static_cast<int>(v);
  }
  for (std::size_t v = 0; v < values.size(); ++v) {
    tangents[v].input  = values[v].input;
    tangents[v].output = values[v].output;
    if (home(static_cast<int>(v)) == static_cast<int>(v) && !is_external(static_cast<int>(v)))
      tangents[v].piece = arena.add(values[v].bytes);
  }
  std::vector<bool> begun(values.size(), false);
  for (int o = 0; o < static_cast<int>(operations.size()); ++o) {
    const int out = home(operations[index(o)].output);
    with_stored(arena, o, [&] {
      if (!begun[index(out)]) {
        begun[index(out)] = true;
        arena.begin(tangents[index(out)].piece);
      }
      std::vector<int> done{out};
      for (const int v : operations[index(o)].inputs) done.push_back(home(v));
      std::sort(done.begin(), done.end());
      done.erase(std::unique(done.begin(), done.end()), done.end());
      for (const int v : done)
        if (begun[index(v)] && last[index(v)] <= o) arena.end(tangents[index(v)].piece);
    });
  }
}

}  // namespace shard::impl
