"""Settings of Django's own test suite: the server and the engine that run.py names in the environment."""

import os

DATABASES = {
    alias: {
        "ENGINE": "django.db.backends.mysql",
        "NAME": f"{os.environ['FROND_APPS_DATABASE']}_{alias}",
        "USER": "root",
        "HOST": os.environ["FROND_SOCKET"],
        "TEST": {"CHARSET": "utf8mb4"},
    }
    for alias in ("default", "other")
}
SECRET_KEY = "of tests"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
USE_TZ = False
