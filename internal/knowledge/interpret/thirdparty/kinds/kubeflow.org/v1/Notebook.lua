function GetReplicas(obj)
  return 1, kube.accuratePodRequirements(obj.spec.template)
end

function InterpretHealth(obj)
  return number(at(obj, "status", "readyReplicas")) >= 1
end

function ReflectStatus(obj)
  return pick(obj, "conditions", "readyReplicas", "containerState")
end

function AggregateStatus(obj, items)
  add(obj, items, "readyReplicas")
  obj.status.containerState = first(items, "containerState")
  obj.status.conditions = joined(items, "conditions")
  return obj
end

function GetDependencies(obj)
  return dependencies(obj, {obj.spec.template})
end
