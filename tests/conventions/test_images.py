"""The container images and the compose file fit together; `infra/compose-check` plays a job through them."""

import re

from tests.conventions.sources import ROOT


def test_agents_store_their_identities_in_a_folder_of_the_user_that_a_volume_holds() -> None:
    image = (ROOT / "infra/images/Dockerfile").read_text(encoding="utf-8")
    (folder,) = re.findall(r"WARRENER_AGENT_FOLDER=(/\S+)", image)
    as_root, _ = image.split("\nUSER warrener\n")
    assert f"install --directory --owner warrener --group warrener {folder}\n" in as_root
    compose = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    assert f'- "agents:{folder}"\n' in compose
