import { type CommandContext, defineCommand } from '#cli/command'
import { type Check, fail, ok, warn } from '#cli/doctor/check'
import { checkAccess } from '#cli/doctor/check-access'
import { checkKey } from '#cli/doctor/check-key'
import { checkClock, checkNode } from '#cli/doctor/check-machine'
import { checkPort } from '#cli/doctor/check-port'
import { checkSources } from '#cli/doctor/check-sources'
import { checkDurability, checkStore } from '#cli/doctor/check-store'
import { EXIT } from '#cli/exit-codes'
import { loadProjectConfig, problemText } from '#cli/load-project'
import type { Output } from '#cli/output'
import { decodeMasterKey } from '#config/environment'
import { ConfigError, type ConfigProblem } from '#config/load'
import { loadTools } from '#config/load-tools'
import { toApprovalRules } from '#config/schema-policies'
import { checkAgainstTools, chooseStore, type StoreLocation } from '#config/to-settings'
import { cleanText } from '#core/json'
import type { Tool } from '#core/tool'

export const doctor = defineCommand<'config' | 'store'>({
  name: 'doctor',
  summary: 'Checks what a server needs: Node, config, tools, access, key, store, disk, port, clock.',
  details: ['Exit code 2 when something has to be put right before the server can be trusted.'],
  positionals: [],
  options: {
    config: {
      value: 'F',
      help: 'Config file. Default: COLLET_CONFIG, or collet.config.{ts,js,mjs,json} here.',
    },
    store: { value: 'URL', help: 'Check this store instead of the one of the config.' },
  },
  examples: ['collet doctor', 'collet doctor --json'],
  async run(args, context) {
    const { output, json } = context
    const checks = await output.during(
      'Looking around',
      examine(args.text('config'), args.text('store'), context),
    )
    if (json) output.json(checks)
    else for (const check of checks) show(check, output)
    return checks.some(({ level }) => level === 'fail') ? EXIT.usage : EXIT.ok
  },
})

async function examine(
  named: string | undefined,
  store: string | undefined,
  context: CommandContext,
): Promise<Check[]> {
  const machine = [checkNode(process.versions.node)]
  try {
    const loaded = await loadProjectConfig(named, context)
    const location = chooseStore(store, context.workingFolder, {
      text: loaded.config.store,
      folder: loaded.folder,
    })
    const { host, port } = loaded.config.server
    const { tools, problems } = await loadTools(loaded)
    if (problems.every(({ severity }) => severity !== 'error')) checkAgainstTools(loaded, tools)
    return [
      ...machine,
      ok('config', loaded.file),
      ...describeTools(tools, problems, context),
      ...checkAccess({ ...loaded.config, tools, sources: Object.entries(loaded.config.sources) }),
      checkKey(location, context.environment.masterKey),
      await checkStore(location, () => context.services.checkWritable(accessTo(location, context))),
      checkDurability(location),
      ...(await checkSources({
        sources: loaded.config.sources,
        tools,
        approvals: toApprovalRules(loaded.config.approvals),
        file: location.file,
        openStore: () => context.services.openStore(accessTo(location, context)),
      })),
      await checkPort(host, port),
      checkClock(context.clock, location.file),
    ]
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return [
      ...machine,
      ...error.problems.map((problem) => problemCheck('config', problem, context)),
      checkClock(context.clock),
    ]
  }
}

function describeTools(
  tools: readonly Tool[],
  problems: readonly ConfigProblem[],
  context: CommandContext,
): Check[] {
  const found = problems.map((problem) => problemCheck('tools', problem, context))
  if (found.some(({ level }) => level === 'fail')) return found
  return [...found, ok('tools', tools.length === 1 ? '1 tool' : `${tools.length} tools`)]
}

function problemCheck(subject: string, problem: ConfigProblem, { workingFolder }: CommandContext): Check {
  const text = problemText(problem, workingFolder)
  const make = problem.severity === 'error' ? fail : warn
  return make(subject, text, 'Edit the file and run collet doctor again.')
}

function accessTo({ store, dataFolder }: StoreLocation, { environment }: CommandContext) {
  return { url: store, dataFolder, masterKey: decodeMasterKey(environment.masterKey) }
}

const MARKS = {
  ok: ['green', '✓'],
  warn: ['yellow', '!'],
  fail: ['red', '✗'],
} as const satisfies Record<Check['level'], readonly [string, string]>

function show({ level, subject, message, advice }: Check, output: Output): void {
  const [color, mark] = MARKS[level]
  output.data(`${output.style(color, mark)} ${subject.padEnd(6)} ${cleanText(message)}`)
  if (advice !== undefined) output.data(`         → ${cleanText(advice)}`)
}
