-- A repository of type oci only holds settings; its controller reports nothing.
function InterpretHealth(obj)
  if obj.spec.type == "oci" and at(obj, "status", "conditions") == nil then return true end
  return reconciled(obj)
end

function ReflectStatus(obj)
  return pick(obj, "observedGeneration", "conditions", "artifact", "url")
end

function AggregateStatus(obj, items)
  return foldReady(obj, items, "artifact", "url")
end

function GetDependencies(obj)
  local list = {}
  refer(list, obj, "Secret", at(obj, "spec", "secretRef", "name"))
  refer(list, obj, "Secret", at(obj, "spec", "certSecretRef", "name"))
  return list
end
