// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <Kokkos_Core.hpp>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "handles.hpp"
#include "shard/io/checkpoint.hpp"
#include "shard/io/netcdf_output.hpp"

namespace shard::impl {

struct FileAccess {
  static void add(Checkpoint& checkpoint, CheckpointArray array,
                  std::shared_ptr<CheckpointMemory> memory) {
    checkpoint.put(std::move(array), std::move(memory));
  }
  static void write(NetcdfOutput& file, const std::string& variable, const std::size_t* entry,
                    const CheckpointArray& array) {
    file.put(variable, entry, array);
  }
};

}  // namespace shard::impl

struct shard_output_s : shard::c::Counted {
  shard_output_s(std::shared_ptr<shard::impl::MeshState> of, const char* path,
                 shard::ExistingFile existing)
      : mesh(std::move(of)), file(mesh->comm(), path, existing) {}
  std::shared_ptr<shard::impl::MeshState> mesh;
  shard::NetcdfOutput file;
};

namespace shard::c {

namespace {

using impl::text;
using impl::throw_argument;

/// What the owned elements of a field in device memory span, on the host.
class SpanMirror : public impl::CheckpointMemory {
 public:
  explicit SpanMirror(const shard_field_s& field) {
    std::size_t bytes = static_cast<std::size_t>(field.value_size);
    for (int d = 0; d < field.geometry.rank; ++d) {
      const index_t more = (field.geometry.owned(d) - 1) * field.stride[impl::Geometry::at(d)];
      bytes              = more < 0 ? 0 : bytes + static_cast<std::size_t>(more * field.value_size);
      if (bytes == 0) break;
    }
    device_ = Device(field.origin, bytes);
    host_   = Host("shard::span", bytes);
  }
  std::byte* data() const { return host_.data(); }
  void to_host() override { Kokkos::deep_copy(host_, device_); }
  void from_host() override { Kokkos::deep_copy(device_, host_); }

 private:
  using Device = Kokkos::View<std::byte*, DeviceMemory, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
  using Host   = Kokkos::View<std::byte*, Kokkos::HostSpace>;
  Device device_;
  Host host_;
};

/// A field as files have it.
struct FileField {
  impl::CheckpointArray array;
  std::shared_ptr<SpanMirror> mirror;  // of a field in device memory
};

const char* type_in_file(const char* function, const shard_field_s& field) {
  switch (field.kind) {
    case impl::ValueKind::f32: return "F32";
    case impl::ValueKind::f64: return "F64";
    case impl::ValueKind::i32: return "I32";
    case impl::ValueKind::i64: return "I64";
    default:
      throw_argument(function, {"\"", field.geometry.label,
                                "\" has complex values; files have float, double or integers"});
  }
}

FileField in_file(const char* function, const shard_field_s& field) {
  field.fetch();
  FileField made;
  made.array =
      impl::field_array(field.geometry.label, type_in_file(function, field), field.geometry);
  made.array.stride = field.stride;
  made.array.data   = field.origin;
  if (field.on_device) {
    made.mirror     = std::make_shared<SpanMirror>(field);
    made.array.data = made.mirror->data();
  }
  if (field.is_reversed) {
    const int rank = made.array.rank;
    for (auto* list :
         {&made.array.global, &made.array.begin, &made.array.extent, &made.array.stride})
      std::reverse(list->begin(), list->begin() + rank);
    if (made.array.listed >= 0) made.array.listed = rank - 1 - made.array.listed;
  }
  return made;
}

/// Calls use(checkpoint, path) for one of these fields and numbers.
template <class Use>
int with_checkpoint(const char* function, const char* path, int count, const shard_field* fields,
                    int numbers, double* values, const Use& use) {
  return guarded([&] {
    require(path, "the path");
    if (count < 1) throw_argument(function, {text(count), " fields"});
    require(fields, "the list of fields");
    Checkpoint checkpoint(require(fields[0], "a field").geometry.mesh->comm());
    for (int f = 0; f < count; ++f) {
      FileField field = in_file(function, require(fields[f], "a field"));
      impl::FileAccess::add(checkpoint, std::move(field.array), std::move(field.mirror));
    }
    if (numbers > 0)
      checkpoint.add("numbers", Kokkos::View<double*, Kokkos::HostSpace>(
                                    &require(values, "the list of numbers"),
                                    static_cast<std::size_t>(numbers)));
    use(checkpoint, std::string(path));
    for (int f = 0; f < count; ++f) fields[f]->store();
  });
}

template <class Use>
int with_output(shard_output output, const Use& use) {
  return guarded([&] { use(require(output, "the output").file); });
}

std::vector<NetcdfAttribute> attributes_of(const char* long_name, const char* units) {
  std::vector<NetcdfAttribute> attributes;
  if (long_name != nullptr) attributes.push_back({"long_name", std::string(long_name)});
  if (units != nullptr) attributes.push_back({"units", std::string(units)});
  return attributes;
}

NetcdfType netcdf_type(int type) {
  switch (type) {
    case shard_float: return NetcdfType::float32;
    case shard_double: return NetcdfType::float64;
    case shard_int32: return NetcdfType::int32;
    default:
      throw_argument("output_variable",
                     {"there is no type ", text(type), " in files; it is float, double or int32"});
  }
}

}  // namespace

}  // namespace shard::c

int shard_field_reversed(shard_field field, int reversed) {
  return shard::c::guarded(
      [&] { shard::c::require(field, "the field").is_reversed = reversed != 0; });
}

int shard_checkpoint_save(const char* path, int count, const shard_field* fields, int numbers,
                          const double* values) {
  return shard::c::with_checkpoint(
      "checkpoint_save", path, count, fields, numbers, const_cast<double*>(values),
      [](const shard::Checkpoint& checkpoint, const std::string& to) { checkpoint.save(to); });
}
int shard_checkpoint_load(const char* path, int count, const shard_field* fields, int numbers,
                          double* values) {
  return shard::c::with_checkpoint(
      "checkpoint_load", path, count, fields, numbers, values,
      [](const shard::Checkpoint& checkpoint, const std::string& from) { checkpoint.load(from); });
}

int shard_output_create(shard_mesh mesh, const char* path, int extend, shard_output* output) {
  using namespace shard::c;
  return guarded([&] {
    shard_output& made = require(output, "the output to be made");
    require(path, "the path");
    made = new shard_output_s(
        require(mesh, "the mesh").state, path,
        extend != 0 ? shard::ExistingFile::extend : shard::ExistingFile::replace);
  });
}
int shard_output_retain(shard_output output) { return shard::c::retain(output, "the output"); }
int shard_output_release(shard_output* output) { return shard::c::release(output, "the output"); }

int shard_output_dimension(shard_output output, const char* name, int64_t size) {
  using namespace shard::c;
  return with_output(output, [&](auto& file) {
    if (size < 0) throw_argument("output_dimension", {"a size of ", text(size)});
    file.add_dimension(&require(name, "the name"), static_cast<std::size_t>(size));
  });
}
int shard_output_coordinate(shard_output output, const char* name, int64_t count,
                            const double* values, const char* units) {
  using namespace shard::c;
  return with_output(output, [&](auto& file) {
    const std::string named = &require(name, "the name");
    if (count < 0) throw_argument("output_coordinate", {"a size of ", text(count)});
    if (count > 0) require(values, "the list of values");
    const std::span<const double> all(values, static_cast<std::size_t>(count));
    if (units == nullptr && named == "lat")
      file.add_latitude(all);
    else if (units == nullptr && named == "lon")
      file.add_longitude(all);
    else
      file.add_coordinate(named, all, attributes_of(nullptr, units));
  });
}
int shard_output_time(shard_output output, const char* units, const char* calendar) {
  using namespace shard::c;
  return with_output(output, [&](auto& file) {
    file.add_time(&require(units, "the units"), calendar == nullptr ? "standard" : calendar);
  });
}
int shard_output_variable(shard_output output, const char* name, int type, int rank,
                          const char* const* dimensions, const char* long_name, const char* units) {
  using namespace shard::c;
  return with_output(output, [&](auto& file) {
    std::vector<std::string> names;
    for (int d = 0; d < rank; ++d)
      names.emplace_back(&require((&require(dimensions, "the list of dimensions"))[d], "a name"));
    file.add_variable(&require(name, "the name"), names, netcdf_type(type),
                      attributes_of(long_name, units));
  });
}
int shard_output_write(shard_output output, const char* variable, int64_t entry,
                       shard_field field) {
  using namespace shard::c;
  return with_output(output, [&](auto& file) {
    const auto& f = require(field, "the field");
    require(variable, "the variable");
    if (f.kind == shard::impl::ValueKind::i64)
      throw_argument("output_write", {"\"", f.geometry.label,
                                      "\" has 64-bit integers, which the file's format lacks"});
    Kokkos::fence("shard_output_write");
    const FileField of = in_file("output_write", f);
    if (of.mirror) of.mirror->to_host();
    const auto at = static_cast<std::size_t>(entry);
    shard::impl::FileAccess::write(file, variable, entry < 0 ? nullptr : &at, of.array);
  });
}
int shard_output_write_number(shard_output output, const char* variable, int64_t entry,
                              double value) {
  using namespace shard::c;
  return with_output(output, [&](auto& file) {
    if (entry < 0) throw_argument("output_write_number", {"entry ", text(entry)});
    file.write(&require(variable, "the variable"), static_cast<std::size_t>(entry), value);
  });
}
int shard_output_close(shard_output output) {
  return shard::c::with_output(output, [](auto& file) { file.close(); });
}
