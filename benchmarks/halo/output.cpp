// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <cstdlib>
#include <memory>
#include <stdexcept>

#include "measure.hpp"
#include "support/arguments.hpp"

namespace halo {

void print_header(std::FILE* to) { std::fprintf(to, "%-70s %12s %12s\n", "case", "time", "face"); }

void print(std::FILE* to, const Result& r) {
  std::fprintf(to, "%-70s %9.2f us %10lld B\n", (r.case_name + "/" + r.way).c_str(), r.microseconds,
               static_cast<long long>(r.face_bytes));
  std::fflush(to);
}

void write_json(const std::string& file, const std::vector<Result>& results, int ranks) {
  char* text       = nullptr;
  std::size_t size = 0;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> out(open_memstream(&text, &size), std::fclose);
  if (!out) throw std::runtime_error("no memory for " + file);
  std::fprintf(out.get(), "{\"ranks\": %d, \"benchmarks\": [\n", ranks);
  for (std::size_t i = 0; i < results.size(); ++i) {
    const Result& r = results[i];
    std::fprintf(out.get(),
                 "  {\"name\": \"%s/%s\", \"real_time\": %.4f, \"face_bytes\": %lld, "
                 "\"run_bytes\": %lld, \"strided\": %d, \"messages\": %d, \"tuning\": \"%s\", "
                 "\"turns\": [",
                 r.case_name.c_str(), r.way.c_str(), r.microseconds,
                 static_cast<long long>(r.face_bytes), static_cast<long long>(r.run_bytes),
                 r.strided ? 1 : 0, r.messages, r.tuning.c_str());
    for (std::size_t t = 0; t < r.turns.size(); ++t)
      std::fprintf(out.get(), "%s%.2f", t > 0 ? "," : "", r.turns[t]);
    std::fprintf(out.get(), "]}%s\n", i + 1 < results.size() ? "," : "");
  }
  std::fprintf(out.get(), "]}\n");
  out.reset();
  const std::unique_ptr<char, void (*)(void*)> owner(text, std::free);
  support::write_output(file, std::string(text, size));
}

}  // namespace halo
