# `make` alone lists the targets. Whatever is up to date is skipped, so the same command goes on after a kill.
PROFILE ?= cpu
ROUND ?= 1
PYTHON ?= python3

RUN = .venv/bin/python -m coevo_lib
STUDY = --profile "$(PROFILE)" --round "$(ROUND)"

# Said before anything is set up.
ifneq ($(filter smoke,$(MAKECMDGOALS)),)
ifeq ($(filter smoke,$(PROFILE))$(filter file,$(origin PROFILE)),)
$(error smoke has a profile of its own; for another one: make reproduce PROFILE=$(PROFILE))
endif
endif
ifneq ($(filter check-task,$(MAKECMDGOALS)),)
ifeq ($(strip $(TASK)),)
$(error check-task needs a task: make check-task TASK=attendance, or TASK=my_tasks/hives.py)
endif
endif
ifneq ($(filter new-task,$(MAKECMDGOALS)),)
ifeq ($(strip $(NAME)),)
$(error new-task needs a name: make new-task NAME=hives)
endif
endif

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help reproduce smoke test lab status evolution rollouts localization correction training evaluation results \
  report strip lint bench room settings student new-task check-task clean

help: ## list the targets
	@echo "make TARGET [PROFILE=cpu] [ROUND=1] [PYTHON=python3]"; echo
	@awk -F ':.*## ' '/^[a-z%<>-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo "  force-<stage>  make that stage run again, e.g. make force-rollouts rollouts"

reproduce: .venv/.ready ## run every stage that is not up to date, 01 to 07
	@$(RUN) run $(STUDY)

smoke: .venv/.ready ## the same with the smallest profile, in minutes
	@$(RUN) run --profile smoke --round "$(ROUND)"

test: .venv/.ready ## run the tests
	@.venv/bin/python -m pytest -q tests

lab: .venv/.ready ## open the notebooks in JupyterLab
	@.venv/bin/jupyter lab $$([ "$$(id -u)" = 0 ] && echo --allow-root) notebooks/00_tour.ipynb

status: .venv/.ready ## show what is up to date, and why anything is not
	@$(RUN) status $(STUDY)

evolution: .venv/.ready ## 01: evolve a harness for each task
	@$(RUN) run --stage 01_harness_evolution $(STUDY)

rollouts: .venv/.ready ## 02: play the training instances
	@$(RUN) run --stage 02_rollouts $(STUDY)

localization: .venv/.ready ## 03: find the failing turns
	@$(RUN) run --stage 03_failure_localization $(STUDY)

correction: .venv/.ready ## 04: correct them
	@$(RUN) run --stage 04_correction $(STUDY)

training: .venv/.ready ## 05: train the adapters of the arms
	@$(RUN) run --stage 05_training $(STUDY)

evaluation: .venv/.ready ## 06: evaluate every arm
	@$(RUN) run --stage 06_evaluation $(STUDY)

results: .venv/.ready ## 07: make the tables and figures
	@$(RUN) run --stage 07_results $(STUDY)

force-%: .venv/.ready
	@$(RUN) force $* $(STUDY)

report: .venv/.ready ## write the executed notebooks as HTML into report/
	@$(RUN) report $(STUDY)

strip: .venv/.ready ## take outputs and timings out of the notebooks
	@$(RUN) strip

lint: .venv/.ready ## check code, notebooks and profiles
	@$(RUN) lint

bench: .venv/.ready ## measure the engines on this machine
	@.venv/bin/python -m coevo_lib.bench

room: .venv/.ready ## measure h0 by size on the select split, of all tasks or TASK=my_tasks/hives.py
	@.venv/bin/python -m coevo_lib.room $(if $(TASK),--tasks "$(TASK)")

settings: .venv/.ready ## measure which learning rate the rule of the README picks, after `correction`
	@.venv/bin/python -m coevo_lib.settings --profile "$(PROFILE)"

new-task: .venv/.ready ## write a small task of your own to start from: NAME=hives
	@.venv/bin/python -m coevo_lib.new_task "$(NAME)"

check-task: .venv/.ready ## prove a task: TASK=attendance, or TASK=my_tasks/hives.py
	@.venv/bin/python -m coevo_lib.check_task "$(TASK)"

student: .venv/.ready ## rebuild the prepared student
	@.venv/bin/python -m coevo_lib.student rebuild

clean: ## delete the environment, reports and executed notebooks; outputs and the reply cache stay
	@rm -rf .venv report .cache/executed .cache/tour *.egg-info

.venv/.ready: pyproject.toml setup/install.py
	@for python in "$(PYTHON)" python3.13 python3.12 python3.11 python3.14; do \
	  if "$$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 15))' >/dev/null 2>&1; then \
	    exec "$$python" setup/install.py; \
	  fi; \
	done; \
	echo "error: no Python from 3.11 to 3.14 found; install one, or name it: make PYTHON=/path/to/python3" >&2; exit 1
