// Prints an xla.HloModuleProto for people, without a protobuf library. For files of this folder only.
#pragma once

#include <string>
#include <string_view>

namespace tpu::pjrt {

// One line per instruction: "ROOT %add.1 = f32[2,3]{1,0} add(%a, %b)", with the attributes that help reading. Bytes
// that are no module give an empty module, never an error.
std::string HloText(std::string_view hlo_module_proto);

// The module within an xla.HloModuleProtoWithConfig; a view into it.
std::string_view HloModuleOf(std::string_view hlo_module_proto_with_config);

}  // namespace tpu::pjrt
