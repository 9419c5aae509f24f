-- name: schema_columns
-- The columns of the tables, each with its type, nullability and default.
SELECT tables.name || '.' || columns.name,
    lower(columns.type)
    || CASE WHEN columns."notnull" THEN ' not null' ELSE '' END
    || coalesce(' default ' || columns.dflt_value, '')
FROM sqlite_master AS tables
JOIN pragma_table_info(tables.name) AS columns
WHERE tables.type = 'table' AND tables.name LIKE 'warrener\_%' ESCAPE '\'
