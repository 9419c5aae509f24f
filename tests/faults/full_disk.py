"""A PostgreSQL that answers writes as one whose disk is full."""

FULL_DISK = """
CREATE FUNCTION disk_is_full() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    RAISE 'could not extend file "base/1/2": No space left on device' USING ERRCODE = 'disk_full';
END $$;
CREATE TRIGGER full_for_jobs BEFORE INSERT ON warrener_jobs EXECUTE FUNCTION disk_is_full();
CREATE TRIGGER full_for_parked BEFORE INSERT ON warrener_parked EXECUTE FUNCTION disk_is_full();
"""
"""Makes the tables of jobs and parked messages refuse rows, until `disk_is_full` is dropped with CASCADE."""
