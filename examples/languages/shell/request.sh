#!/usr/bin/env bash
# Requests jobs of a Warrener from a shell, with amqp-tools and jq.
set -euo pipefail
url=${WARRENER_BROKER_URL:-amqp://guest:guest@127.0.0.1:5672/%2F}
replies=$(mktemp)

# Replies come to a queue of this program. Its address begins with the user of the broker, so that a
# permission can name it.
user=${url#*://} user=${user%%[:@]*}
address=$(tr -c 'A-Za-z0-9_-' - <<<"${user:0:47}" | head -c -1)-$(tr -d - </proc/sys/kernel/random/uuid)
amqp-consume --url "$url" -x -q "warrener.reply.$address" -e warrener.events -r "reply.$address" \
  -- sh -c "jq -c 'if type == \"array\" then .[] else . end' >>$replies" &
trap 'kill $! 2>/dev/null; rm -f "$replies"' EXIT

uuid() { cat /proc/sys/kernel/random/uuid; }

event() { # type, id, data
  jq -cn --arg type "$1" --arg id "$2" --arg address "$address" --argjson data "$3" \
    '{specversion: "1.0", type: $type, source: "shell-shop", id: $id, data: ($data + {reply_to: $address})}'
}

publish() { # exchange, key, a JSON array of events; amqp-publish waits for no confirm, so `reply` repeats it
  last=("$@")
  amqp-publish --url "$url" -e "$1" -r "$2" -p -C application/cloudevents-batch+json -b "$3"
}

reply() { # id, a field of job.finished, job.rejected or command.handled
  local tries=0 found
  while :; do
    found=$(jq -r --arg id "$1" --arg field "$2" \
      'select(.data | .request_id == $id or .command_id == $id) | .data[$field]' "$replies" | head -n 1)
    [[ -z $found ]] || break
    sleep 0.1
    ((++tries % 50)) || publish "${last[@]}" # under the same id it is the same request
  done
  echo "$found"
}

request() { # id, job type, arguments, other data
  publish warrener.requests "$2" "[$(event job.requested.v1 "$1" \
    "$(jq -cn --arg type "$2" --argjson with "$3" "{job_type: \$type, arguments: \$with} + ${4:-{\}}")")]"
}

command() { # name, data: prints if it was accepted
  local id; id=$(uuid)
  publish warrener.commands "$1" "[$(event "$1.v1" "$id" "$2")]"
  reply "$id" accepted
}

ada='{"name": "Ada"}' id=$(uuid)
request "$id" hello.greet "$ada"
echo "answer: $(reply "$id" result)"

bad=$(uuid)
request "$bad" hello.greet '{}'
echo "rejection: $(reply "$bad" reason)"

: >"$replies"
request "$id" hello.greet "$ada"
[[ $(reply "$id" job_id) != "$id" ]] || echo "repeat: same job"

bob=$(uuid) eve=$(uuid)
publish warrener.requests hello.greet "[
  $(event job.requested.v1 "$bob" '{"job_type": "hello.greet", "arguments": {"name": "Bob"}}'),
  $(event job.requested.v1 "$eve" '{"job_type": "hello.greet", "arguments": {"name": "Eve"}}')]"
echo "batch: $(reply "$bob" result) $(reply "$eve" result)"

late=$(uuid)
request "$late" hello.greet "$ada" '{delay: "PT10M"}'
echo "cancel: $(command job.cancel_requested "{\"job_id\": \"$late\"}") $(reply "$late" state)"

rule='{"kind": "cron", "expression": "@daily"}'
echo "schedule: $(command schedule.put \
  "{\"name\": \"shell.hello\", \"rule\": $rule, \"job_type\": \"hello.greet\", \"arguments\": $ada}")"

meeting=$(uuid)
request "$meeting" hello.meet "$ada"
opened=$(command job.signal_requested "{\"job_id\": \"$meeting\", \"name\": \"door\", \"data\": \"Bob\"}")
[[ $opened == true ]]
echo "signal: $(reply "$meeting" result)"
