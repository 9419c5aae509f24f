-- So many steps are through with these entries; what has come further stays there.
UPDATE warrener_case_entries
SET done = ?3
WHERE fingerprint = ?1 AND occurrence IN (SELECT value FROM json_each(?2)) AND done < ?3
