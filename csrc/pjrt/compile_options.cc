// Field numbers from openxla/xla, xla/pjrt/proto/compile_options.proto and xla/xla_data.proto.
#include "pjrt/compile_options.h"

#include "pjrt/proto_wire.h"

namespace tpu::pjrt {
namespace {

struct OverrideWriter {
  WireWriter& out;
  void operator()(const std::string& v) const { out.Bytes(1, v); }
  void operator()(bool v) const { out.Varint(2, v); }
  void operator()(int64_t v) const { out.Varint(3, v); }
  void operator()(double v) const { out.Double(4, v); }
};

// DeviceAssignmentProto: one ComputationDevice per partition, each listing its replicas' device ids.
std::string DeviceAssignment(const std::vector<int>& ids, int num_replicas, int num_partitions) {
  WireWriter assignment;
  assignment.Varint(1, num_replicas);
  assignment.Varint(2, num_partitions);
  for (int partition = 0; partition < num_partitions; ++partition) {
    WireWriter computation;
    for (int replica = 0; replica < num_replicas; ++replica) {
      size_t i = static_cast<size_t>(replica) * num_partitions + partition;
      computation.Varint(1, i < ids.size() ? ids[i] : -1);
    }
    assignment.Bytes(3, computation.bytes());
  }
  return assignment.bytes();
}

}  // namespace

std::string Serialize(const CompileOptions& options) {
  std::vector<int> assignment = options.device_assignment;
  if (assignment.empty() && options.device_ordinal.has_value()) assignment = {*options.device_ordinal};

  WireWriter build;
  build.Varint(1, options.device_ordinal.value_or(-1));
  build.Varint(4, options.num_replicas);
  build.Varint(5, options.num_partitions);
  if (options.use_spmd) build.Varint(6, 1);
  if (!assignment.empty()) {
    build.Bytes(9, DeviceAssignment(assignment, options.num_replicas, options.num_partitions));
  }

  WireWriter proto;
  proto.Bytes(3, build.bytes());
  const bool single = options.num_replicas == 1 && options.num_partitions == 1;
  if (options.portable && single && assignment.empty()) proto.Varint(4, 1);
  for (const auto& [name, flag] : options.xla_flags) {
    WireWriter value;
    std::visit(OverrideWriter{value}, flag);
    WireWriter entry;
    entry.Bytes(1, name);
    entry.Bytes(2, value.bytes());
    proto.Bytes(7, entry.bytes());
  }
  return proto.bytes();
}

}  // namespace tpu::pjrt
