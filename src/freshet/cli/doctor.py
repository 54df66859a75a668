"""`freshet doctor`: is everything here that a run needs?"""

import platform

import typer

from freshet.cli import output


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(name="doctor")(doctor)


def doctor() -> None:
    """Check Java, fetch Delta's jars if they are not cached, and check the model's weights."""
    from freshet.embedding.minilm import check_weights, model_folder  # noqa: PLC0415
    from freshet.spark import find_java  # noqa: PLC0415
    from freshet.stores import delta_jars  # noqa: PLC0415

    java = find_java()
    with output.working("fetching Delta's jars"):
        jars = delta_jars.fetched(java)
    check_weights()
    output.facts(
        {
            "python": platform.python_version(),
            "java": java,
            "jars": f"{len(jars)} in {jars[0].parent}",
            "model": f"{model_folder()}, checksum right",
        }
    )
