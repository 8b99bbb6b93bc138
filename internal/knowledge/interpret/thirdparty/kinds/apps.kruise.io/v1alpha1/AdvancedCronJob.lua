function InterpretHealth(obj)
  return true
end

function ReflectStatus(obj)
  return pick(obj, "type", "active", "lastScheduleTime")
end

function AggregateStatus(obj, items)
  obj.status = {
    type = first(items, "type"),
    active = joined(items, "active"),
    lastScheduleTime = extreme(items, "lastScheduleTime", true),
  }
  return obj
end

function GetDependencies(obj)
  local templates = {}
  for _, name in ipairs({"jobTemplate", "broadcastJobTemplate"}) do
    local template = at(obj, "spec", "template", name, "spec", "template")
    if template ~= nil then table.insert(templates, template) end
  end
  return dependencies(obj, templates)
end
