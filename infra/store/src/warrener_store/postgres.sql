-- name: schema_columns
-- The columns of the tables, each with its type, nullability and default.
SELECT tables.relname || '.' || columns.attname,
    format_type(columns.atttypid, columns.atttypmod)
    || CASE WHEN columns.attnotnull THEN ' not null' ELSE '' END
    || coalesce(' default ' || pg_get_expr(defaults.adbin, defaults.adrelid), '')
FROM pg_class AS tables
JOIN pg_attribute AS columns ON columns.attrelid = tables.oid AND columns.attnum > 0 AND NOT columns.attisdropped
LEFT JOIN pg_attrdef AS defaults ON defaults.adrelid = tables.oid AND defaults.adnum = columns.attnum
WHERE tables.relkind IN ('r', 'p') AND tables.relname LIKE 'warrener\_%' AND pg_table_is_visible(tables.oid)
