import { defineCommand } from '#cli/command'
import { runOpenToolCommand } from '#cli/opentool/run-start'
import { START_HELP } from '#cli/opentool/start-help'

export const opentoolStart = defineCommand<never>({
  name: 'opentool',
  summary: 'Starts an OpenTool server (opentool start), by the OpenTool command-line guidelines.',
  positionals: [],
  options: {},
  examples: [],
  guest: { help: START_HELP, run: runOpenToolCommand },
  run: (_, context) => runOpenToolCommand([], context),
})
