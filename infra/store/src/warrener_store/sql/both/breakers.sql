-- All breakers that have ever been open: few.
SELECT name, version, state, by_hand, since, until, opened, succeeded, reason, job_types, policy
FROM warrener_breakers
ORDER BY name
