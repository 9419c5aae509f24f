"""The same Celery, with one schedule that its beat keeps."""

from tools.benchmarks.apps.celery_app import app

app.conf.beat_schedule = {"every-second": {"task": "stamped", "schedule": 1.0}}
app.conf.beat_max_loop_interval = 1
