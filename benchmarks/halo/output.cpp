// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <stdexcept>
#include <thread>

#include "measure.hpp"
#include "support/arguments.hpp"

namespace halo {

void print_header(std::FILE* to) {
  std::fprintf(to, "%s\n%-62s %12s %12s %10s %12s %6s\n%s\n", std::string(120, '-').c_str(),
               "Benchmark", "Time", "Fastest", "Calls", "Cores apart", "Calls",
               std::string(120, '-').c_str());
}

void print(std::FILE* to, const Result& r) {
  std::fprintf(to, "%-62s %9.2f us %9.2f us %10d %9.2f us %6d face=%lld run=%lld\n",
               (r.case_name + "/" + r.way).c_str(), r.microseconds, r.fastest, r.repetitions,
               r.apart, r.calls_apart, static_cast<long long>(r.face_bytes),
               static_cast<long long>(r.run_bytes));
  std::fflush(to);
}

void write_json(const std::string& file, const std::vector<Result>& results, int ranks) {
  char* text       = nullptr;
  std::size_t size = 0;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> out(open_memstream(&text, &size), std::fclose);
  if (!out) throw std::runtime_error("no memory for " + file);
  std::array<char, 64> date{}, host{};
  const std::time_t now = std::time(nullptr);
  std::strftime(date.data(), date.size(), "%Y-%m-%dT%H:%M:%S%z", std::localtime(&now));
  gethostname(host.data(), host.size() - 1);
  std::fprintf(out.get(),
               "{\n  \"context\": {\n    \"date\": \"%s\",\n    \"host_name\": \"%s\",\n"
               "    \"executable\": \"halo\",\n    \"num_cpus\": %u,\n    \"ranks\": %d,\n"
               "    \"library_build_type\": \"%s\"\n  },\n  \"benchmarks\": [\n",
               date.data(), host.data(), std::thread::hardware_concurrency(), ranks,
#ifdef NDEBUG
               "release"
#else
               "debug"
#endif
  );
  for (std::size_t i = 0; i < results.size(); ++i) {
    const Result& r        = results[i];
    const std::string name = r.case_name + "/" + r.way;
    std::fprintf(
        out.get(),
        "    {\"name\": \"%s\", \"run_name\": \"%s\", \"run_type\": \"iteration\", "
        "\"repetitions\": 1, \"repetition_index\": 0, \"threads\": 1, \"iterations\": %d, "
        "\"real_time\": %.4f, \"cpu_time\": %.4f, \"time_unit\": \"us\", "
        "\"fastest\": %.4f, \"handshake\": %.1f, \"apart\": %.4f, \"iterations_apart\": "
        "%d, \"face_bytes\": "
        "%lld, \"run_bytes\": %lld, \"strided\": %d, \"messages\": %d, \"tuning\": \"%s\", "
        "\"turns\": [",
        name.c_str(), name.c_str(), r.repetitions, r.microseconds, r.microseconds, r.fastest,
        r.handshake, r.apart, r.calls_apart, static_cast<long long>(r.face_bytes),
        static_cast<long long>(r.run_bytes), r.strided ? 1 : 0, r.messages, r.tuning.c_str());
    for (std::size_t t = 0; t < r.turns.size(); ++t)
      std::fprintf(out.get(), "%s%.2f", t > 0 ? "," : "", r.turns[t]);
    std::fprintf(out.get(), "]}%s\n", i + 1 < results.size() ? "," : "");
  }
  std::fprintf(out.get(), "  ]\n}\n");
  out.reset();
  const std::unique_ptr<char, void (*)(void*)> owner(text, std::free);
  support::write_output(file, std::string(text, size));
}

}  // namespace halo
