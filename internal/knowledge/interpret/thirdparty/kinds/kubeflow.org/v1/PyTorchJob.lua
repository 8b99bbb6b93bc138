function GetComponents(obj)
  return parts(obj.spec.pytorchReplicaSpecs)
end

function InterpretHealth(obj)
  return not is(obj, "Failed")
end

function IsFinished(obj)
  return is(obj, "Succeeded") or is(obj, "Failed")
end

function ReflectStatus(obj)
  return pick(obj, "conditions", "replicaStatuses", "startTime", "completionTime")
end

function AggregateStatus(obj, items)
  return foldTraining(obj, items)
end

function GetDependencies(obj)
  return dependencies(obj, templatesOf(obj.spec.pytorchReplicaSpecs))
end
