// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Replaces netcdf.cpp and netcdf_writer.cpp in builds without NetCDF: every call throws, and says
// what to do.
#include <shard/io/netcdf.hpp>

namespace shard {
namespace {

[[noreturn]] void fail(const std::string& path) {
  throw NetcdfError("shard: NetCDF file '" + path +
                    "': this build has no NetCDF; install it (Debian: libnetcdf-dev) and configure "
                    "with -DSHARD_ENABLE_NETCDF=ON");
}

}  // namespace

bool netcdf_available() { return false; }

struct NetcdfFile::State {
  std::string path;
};

NetcdfFile::NetcdfFile(const std::string& path, std::size_t) { fail(path); }
NetcdfFile::NetcdfFile(NetcdfFile&&) noexcept            = default;
NetcdfFile& NetcdfFile::operator=(NetcdfFile&&) noexcept = default;
NetcdfFile::~NetcdfFile()                                = default;
const std::string& NetcdfFile::path() const { return state_->path; }
std::size_t NetcdfFile::most_bytes() const { fail(path()); }
std::vector<NetcdfDimension> NetcdfFile::dimensions() const { fail(path()); }
std::vector<std::string> NetcdfFile::variables() const { fail(path()); }
bool NetcdfFile::has_variable(const std::string&) const { fail(path()); }
NetcdfVariable NetcdfFile::variable(const std::string&) const { fail(path()); }
std::optional<std::string> NetcdfFile::text(const std::string&, const std::string&) const {
  fail(path());
}
std::optional<double> NetcdfFile::number(const std::string&, const std::string&) const {
  fail(path());
}
DimensionRole NetcdfFile::role(const std::string&) const { fail(path()); }
std::size_t NetcdfFile::read(const std::string&, std::span<const std::size_t>,
                             std::span<const std::size_t>, std::span<double>) const {
  fail(path());
}
std::vector<double> NetcdfFile::read(const std::string&) const { fail(path()); }

struct NetcdfWriter::State {
  std::string path;
};

NetcdfWriter::NetcdfWriter(const std::string& path, bool, ExistingFile) { fail(path); }
NetcdfWriter::NetcdfWriter(NetcdfWriter&&) noexcept            = default;
NetcdfWriter& NetcdfWriter::operator=(NetcdfWriter&&) noexcept = default;
NetcdfWriter::~NetcdfWriter()                                  = default;
void NetcdfWriter::add_dimension(const std::string&, std::size_t) { fail(state_->path); }
void NetcdfWriter::add_variable(const std::string&, const std::vector<std::string>&, NetcdfType,
                                const std::vector<NetcdfAttribute>&) {
  fail(state_->path);
}
void NetcdfWriter::add_coordinate(const std::string&, std::span<const double>,
                                  const std::vector<NetcdfAttribute>&) {
  fail(state_->path);
}
void NetcdfWriter::add_attribute(const NetcdfAttribute&) { fail(state_->path); }
void NetcdfWriter::write(const std::string&, std::span<const double>) { fail(state_->path); }
void NetcdfWriter::write(const std::string&, std::span<const std::size_t>,
                         std::span<const std::size_t>, std::span<const double>) {
  fail(state_->path);
}
void NetcdfWriter::close() { fail(state_->path); }

}  // namespace shard
