function InterpretHealth(obj)
  return is(obj, "Ready") or condition(obj, "Ready") == nil and at(obj, "status", "ready") == true
end

function ReflectStatus(obj)
  return pick(obj, "ready", "conditions", "rulecount", "autogen", "validatingadmissionpolicy")
end

function AggregateStatus(obj, items)
  if #items == 0 then return obj end
  local ready, counts = true, {validate = 0, generate = 0, mutate = 0, verifyimages = 0}
  for _, item in ipairs(items) do
    ready = ready and at(item.status, "ready") == true
    for name in pairs(counts) do counts[name] = math.max(counts[name], number(at(item.status, "rulecount", name))) end
  end
  obj.status = {
    ready = ready,
    conditions = conditions(items, {}),
    rulecount = counts,
    autogen = first(items, "autogen"),
    validatingadmissionpolicy = first(items, "validatingadmissionpolicy"),
  }
  if first(items, "ready") == nil then obj.status.ready = nil end
  return obj
end
