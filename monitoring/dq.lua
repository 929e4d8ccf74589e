-- What Prometheus's Redis exporter asks of DQ at each scrape: prometheus-redis-exporter -script /etc/prometheus/dq.lua
--
-- It only reads. Each queue costs the server about 50 us, in which it serves nobody else, so at most MOST queues are told
-- of one by one, in the order of their names; the totals are of all. To choose, name them: {'mail', 'reports'}.
local MOST, NAMES = 50, {}

local out, count = {}, 0

local function tell(key, value)
  out[count + 1], out[count + 2] = key, tostring(value)
  count = count + 2
end

-- Labels have to be UTF-8; the name of a queue need not be.
local function label(name)
  local rest = name:gsub('[\194-\223][\128-\191]', ''):gsub('[\225-\236\238\239][\128-\191][\128-\191]', '')
  rest = rest:gsub('\224[\160-\191][\128-\191]', ''):gsub('\237[\128-\159][\128-\191]', '')
  rest = rest:gsub('[\241-\243][\128-\191][\128-\191][\128-\191]', '')
  rest = rest:gsub('\240[\144-\191][\128-\191][\128-\191]', ''):gsub('\244[\128-\143][\128-\191][\128-\191]', '')
  if rest:find('[\128-\255]') then
    name = name:gsub('[\128-\255]', function(byte) return string.format('\\x%02x', byte:byte()) end)
  end
  return name
end

local metrics = {}
local function metric(field)
  metrics[field] = metrics[field] or field:gsub('-', '_')
  return metrics[field]
end

local info = {}
for field, value in redis.call('INFO', 'dq'):gmatch('(dq_[%w_]+):(-?%d+)\r?\n') do
  info[field] = tonumber(value)
  tell(field, value)
end

-- A replica tells of itself only, so that no job is counted twice.
if info.dq_acting == 1 then
  local names, untold = NAMES, 0
  if #names == 0 then
    -- Refused in a script where there are more than 1000 queues: then name those that count.
    local rows = redis.pcall('DQ.QUEUES')
    if rows.err then untold = info.dq_queues end
    for at, row in ipairs(rows) do names[at] = row[1] end
  end
  for at, name in ipairs(names) do
    local stats = at <= MOST and redis.pcall('DQ.STATS', name) or {err = 'left out'}
    if stats.err then
      untold = untold + 1
    else
      local prefix = 'queue ' .. label(name) .. ' '
      for i = 1, #stats, 2 do tell(prefix .. metric(stats[i]), stats[i + 1]) end
    end
  end
  tell('dq_queues_untold', untold)
end
return out
