#include "aten/schema_plan.h"

#include <ATen/core/jit_type.h>

namespace tpu::aten {
namespace {

using c10::Argument;
using c10::FunctionSchema;
using c10::TypeKind;
using lowering::Kind;
using lowering::Lowering;

const c10::Type& Unwrap(const c10::TypePtr& type) {
  const c10::Type* t = type.get();
  while (t->kind() == TypeKind::OptionalType) t = t->castRaw<c10::OptionalType>()->getElementType().get();
  return *t;
}

const c10::Type* ListElement(const c10::Type& type) {
  return type.kind() == TypeKind::ListType ? type.castRaw<c10::ListType>()->getElementType().get() : nullptr;
}

// The schema's types in the words of the registry.
Kind KindOf(const Argument& argument) {
  const c10::Type& type = Unwrap(argument.real_type());
  switch (type.kind()) {
    case TypeKind::TensorType: return Kind::kValue;
    case TypeKind::NumberType: return Kind::kScalar;
    case TypeKind::BoolType: return Kind::kBool;
    case TypeKind::IntType:
    case TypeKind::SymIntType: return Kind::kInt;
    case TypeKind::FloatType: return Kind::kDouble;
    case TypeKind::StringType: return Kind::kString;
    case TypeKind::ScalarTypeType: return Kind::kDType;
    case TypeKind::GeneratorType: return Kind::kRng;
    case TypeKind::DeviceObjType:
    case TypeKind::LayoutType:
    case TypeKind::MemoryFormatType:
    case TypeKind::StreamObjType: return Kind::kIgnore;
    case TypeKind::ListType: break;
    default: return Kind::kIgnore;
  }
  const c10::Type& element = *ListElement(type);
  switch (element.kind()) {
    case TypeKind::TensorType: return Kind::kValueList;
    case TypeKind::OptionalType: return Kind::kOptionalValueList;
    case TypeKind::NumberType: return Kind::kScalar;  // Scalar[]: told apart by the list type
    case TypeKind::FloatType: return Kind::kDoubles;
    default: return Kind::kInts;  // bool[] too
  }
}

bool IsList(const Argument& argument) { return Unwrap(argument.real_type()).kind() == TypeKind::ListType; }

// May a lowering parameter of kind `wanted` take this argument?
bool Fits(Kind wanted, const Argument& argument, bool foreach) {
  if (wanted == Kind::kIgnore) return true;
  const Kind has = KindOf(argument);
  const bool list = IsList(argument);
  switch (wanted) {
    case Kind::kValue:
      return has == Kind::kValue || has == Kind::kScalar || has == Kind::kDouble ||
             (foreach && has == Kind::kValueList);
    case Kind::kValueList: return has == Kind::kValueList || (has == Kind::kScalar && list);
    case Kind::kScalar:
      return (has == Kind::kScalar && !list) || has == Kind::kInt || has == Kind::kDouble || has == Kind::kBool;
    case Kind::kDim: return has == Kind::kInt;
    case Kind::kDimList: return has == Kind::kInts;
    case Kind::kDType: return has == Kind::kDType || has == Kind::kInt;  // schemas show ScalarType as int
    case Kind::kDouble: return has == Kind::kDouble || has == Kind::kScalar;
    case Kind::kInt: return has == Kind::kInt || has == Kind::kScalar;
    default: return wanted == has;
  }
}

bool IsOut(const Argument& argument) {
  return argument.is_out() || (argument.kwarg_only() && argument.alias_info() && argument.alias_info()->isWrite());
}

std::vector<int> FunctionalArguments(const FunctionSchema& schema) {
  std::vector<int> result;
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    if (!IsOut(schema.arguments()[i])) result.push_back(static_cast<int>(i));
  }
  return result;
}

bool Matches(const Lowering& lowering, const FunctionSchema& schema, bool foreach, LoweringMatch* match) {
  const std::vector<int> given = FunctionalArguments(schema);
  size_t wanted = lowering.params.size();
  const bool generator =
      std::any_of(given.begin(), given.end(), [&](int i) { return KindOf(schema.arguments()[i]) == Kind::kRng; });
  const bool extra_rng = wanted > 0 && lowering.params.back().kind == Kind::kRng && !generator;
  if (extra_rng) --wanted;
  if (given.size() > wanted) return false;
  if (given.size() < wanted && !foreach) return false;
  match->arguments.clear();
  for (size_t i = 0; i < wanted; ++i) {
    if (i >= given.size()) {
      if (lowering.params[i].kind != Kind::kValue && !lowering.params[i].optional) return false;  // alpha=1, or None
      match->arguments.push_back(-1);
      continue;
    }
    if (!Fits(lowering.params[i].kind, schema.arguments()[given[i]], foreach)) return false;
    match->arguments.push_back(given[i]);
  }
  match->lowering = &lowering;
  match->foreach = foreach;
  return true;
}

std::string Join(const std::string& base, const std::string& overload) {
  return overload.empty() ? base : base + "." + overload;
}

// aten op names carry no "aten::" in the registry; other namespaces do.
std::string BaseName(const FunctionSchema& schema) {
  const std::string& name = schema.name();
  return name.rfind("aten::", 0) == 0 ? name.substr(6) : name;
}

// Overloads of `base` in the registry.
std::vector<const Lowering*> Overloads(const std::string& base) {
  static const auto& by_base = *[] {
    auto* map = new std::unordered_map<std::string, std::vector<const Lowering*>>;
    for (const Lowering* l : lowering::All()) (*map)[l->name.substr(0, l->name.find('.'))].push_back(l);
    for (auto& [name, list] : *map)
      std::sort(list.begin(), list.end(), [](auto* a, auto* b) { return a->name < b->name; });
    return map;
  }();
  auto it = by_base.find(base);
  return it == by_base.end() ? std::vector<const Lowering*>{} : it->second;
}

bool Writes(const FunctionSchema& schema) {
  return std::any_of(schema.arguments().begin(), schema.arguments().end(),
                     [](const Argument& a) { return a.alias_info() && a.alias_info()->isWrite(); });
}

bool HasOut(const FunctionSchema& schema) { return FunctionalArguments(schema).size() != schema.arguments().size(); }

LoweringMatch FindFunctional(const FunctionSchema& schema, const std::string& base, bool foreach) {
  LoweringMatch match;
  const std::string& overload = schema.overload_name();
  if (!HasOut(schema)) {
    for (const std::string& name : {Join(base, overload), Join(base + "_functional", overload)}) {
      if (const Lowering* l = lowering::Find(name); l && Matches(*l, schema, foreach, &match)) return match;
    }
  }
  // Out= forms, some in-place forms and foreach's overloads (List, ScalarList) do not name the functional one: the arguments do.
  const std::string stem = overload == "out"                                   ? ""
                           : overload.size() > 4 && overload.ends_with("_out") ? overload.substr(0, overload.size() - 4)
                                                                               : overload;
  if (const Lowering* l = lowering::Find(Join(base, stem)); l && Matches(*l, schema, foreach, &match)) return match;
  for (const Lowering* l : Overloads(base)) {
    if (Matches(*l, schema, foreach, &match)) return match;
  }
  return {};
}

}  // namespace

LoweringMatch FindLowering(const FunctionSchema& schema) {
  std::string base = BaseName(schema);
  const bool writes = Writes(schema);
  if (!writes) {
    const Lowering* own = lowering::Find(Join(base, schema.overload_name()));
    if (own) {
      LoweringMatch match;
      TORCH_CHECK(Matches(*own, schema, false, &match), "tpu: the lowering of ", own->name, " does not fit its schema ",
                  schema);
      return match;
    }
  } else if (!HasOut(schema) && base.ends_with("_") && !base.ends_with("__")) {
    base.pop_back();
  }
  if (LoweringMatch match = FindFunctional(schema, base, false); match.lowering && (writes || HasOut(schema)))
    return match;
  constexpr std::string_view kForeach = "_foreach_";
  if (base.starts_with(kForeach)) return FindFunctional(schema, base.substr(kForeach.size()), true);
  return {};
}

SchemaPlan MakePlan(const FunctionSchema& schema) {
  SchemaPlan plan;
  plan.name = Join(schema.name(), schema.overload_name());
  plan.match = FindLowering(schema);
  const auto& arguments = schema.arguments();
  const Lowering* lowering = plan.match.lowering;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Argument& argument = arguments[i];
    ArgumentPlan p;
    p.mutated = argument.alias_info() && argument.alias_info()->isWrite();
    switch (KindOf(argument)) {
      case Kind::kValue: p.role = Role::kTensor; break;
      case Kind::kValueList: p.role = Role::kTensorList; break;
      case Kind::kOptionalValueList: p.role = Role::kOptionalTensorList; break;
      case Kind::kRng: p.role = Role::kGenerator; break;
      case Kind::kDouble:
      case Kind::kScalar: {
        // Data if the lowering takes it as a Value; without a lowering it goes into the decomposition, baked.
        bool data = false;
        for (size_t k = 0; lowering && k < plan.match.arguments.size(); ++k) {
          if (plan.match.arguments[k] != static_cast<int>(i)) continue;
          const Kind wanted = lowering->params[k].kind;
          data = wanted == Kind::kValue || wanted == Kind::kValueList;
        }
        if (data) p.role = IsList(argument) ? Role::kScalarList : Role::kScalar;
        if (data && argument.default_value() && argument.default_value()->isInt())
          p.default_scalar = argument.default_value()->toScalar();
        break;
      }
      case Kind::kIgnore: p.role = Role::kIgnored; break;
      default: break;
    }
    plan.arguments.push_back(p);
  }
  for (const auto& ret : schema.returns()) {
    int index = -1;
    if (ret.alias_info() && ret.alias_info()->isWrite()) {
      for (size_t i = 0; i < arguments.size(); ++i) {
        if (arguments[i].alias_info() && arguments[i].alias_info()->beforeSets() == ret.alias_info()->beforeSets())
          index = static_cast<int>(i);
      }
    }
    plan.returns.push_back(index);
  }
  return plan;
}

}  // namespace tpu::aten
