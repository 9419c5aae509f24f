-- Nothing from before that time counts any more.
UPDATE warrener_schedule_watches SET since = greatest(since, $2::timestamptz) WHERE name = ANY($1::text[])
