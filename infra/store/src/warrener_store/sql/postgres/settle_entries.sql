-- So many steps are through with these entries; what has come further stays there.
UPDATE warrener_case_entries
SET done = $3::integer
WHERE fingerprint = $1::text AND occurrence = ANY($2::text[]) AND done < $3::integer
