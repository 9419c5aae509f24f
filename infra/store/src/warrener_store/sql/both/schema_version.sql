-- The revision that the migrations have brought the tables to.
SELECT version_num FROM warrener_schema
