import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parseEnv } from 'node:util'
import { type Arguments, type CommandContext, defineCommand, EXIT, type ExitCode, PORTS } from '#cli/command'
import { counted } from '#cli/output'
import { restartOnChange } from '#cli/serving/watch'
import { CONFIG_OPTION, loadSettings } from '#cli/store-access'
import { type ImportModule, importAgain } from '#config/load'
import type { Settings } from '#config/settings'
import { defined, isRecord } from '#kernel/base/json'
import { Secret } from '#kernel/base/secret'
import type { Tool } from '#kernel/tool/tool'
import { checkExposure } from '#server/safety'
import { OPEN_OPTION, SERVED_STORE_OPTION, serveUntilStopped } from './serve.ts'

/**
 * `collet dev`: serves the tools of a project while their author edits them, and restarts after each save. Invariant:
 * it listens on loopback only, because callers get the errors that tools throw.
 */

const HOST = '127.0.0.1'

type DevOption = 'config' | 'port' | 'store' | 'open' | 'once' | 'check' | 'again'

const dev = defineCommand<DevOption>({
  name: 'dev',
  summary: 'Serves your tools while you write them: a line for each call, and a restart after each save.',
  details: [
    'Listens on 127.0.0.1 only. Callers get the error that a tool threw, with its location.',
    'Secrets that tools declare are taken from .env beside the config, for your own calls; they are not stored.',
    'A file that cannot be loaded is reported with its problems; the old tools are served until it loads.',
  ],
  options: {
    config: CONFIG_OPTION,
    port: { value: 'N', help: 'Port to listen on; 0 means any free port. Default 4100.' },
    store: SERVED_STORE_OPTION,
    open: OPEN_OPTION,
    once: { help: 'Serve without watching files.' },
    check: { help: 'Load config and tools, print their problems, and exit.' },
    again: { help: 'With --once or --check: print only what changed, as after a save.' },
  },
  examples: ['collet dev', 'collet dev --port 8080', 'collet dev --check'],
  async run(args, context) {
    if (args.flag('check')) return await checkProject(args, context)
    if (args.flag('once')) return await serveOnce(args, context)
    const options = args.repeat('config', 'port', 'store')
    const opening = args.flag('open') ? ['--open'] : []
    return await restartOnChange(args.text('config'), context, {
      start: (isAgain) =>
        context.startProcess(['dev', '--once', ...(isAgain ? ['--again'] : opening), ...options]),
      check: async () =>
        (await context.startProcess(['dev', '--check', '--again', ...options]).ended) === EXIT.ok,
    })
  },
})

async function checkProject(args: Arguments<DevOption>, context: CommandContext): Promise<undefined> {
  const settings = await readSettings(args, context)
  const { tools } = settings
  const warnings = checkExposure(settings, false).map(({ text }) => text)
  for (const warning of warnings) context.output.warn(warning)
  if (context.json) context.output.json({ tools: tools.length, warnings })
  else
    context.output.note(
      `${counted(tools.length, 'tool')}, ${warnings.length === 0 ? 'nothing wrong' : counted(warnings.length, 'warning')}.`,
    )
}

async function serveOnce(args: Arguments<DevOption>, context: CommandContext): Promise<ExitCode> {
  const { output } = context
  const settings = await readSettings(args, context)
  const lastStart = new LastStart(settings)
  const secrets = await readSecrets(settings)
  if (secrets.size > 0 && !args.flag('again'))
    output.note(`Secrets from .env: ${[...secrets.keys()].join(', ')}`)
  const developing = {
    folder: context.workingFolder,
    secrets,
    async onReady(url: string) {
      const changes = await lastStart.changes()
      await lastStart.remember()
      if (!args.flag('again')) return false
      output.note(`Ready on ${url}: ${changes.length === 0 ? 'the same tools' : changes.join(', ')}.`)
      return true
    },
  }
  const readAgain = () => readSettings(args, context, importAgain())
  return await serveUntilStopped(
    settings,
    { allowAnonymous: false, readAgain, developing, opens: args.flag('open') },
    context,
  )
}

const MAX_SECRETS = 50

/** Reads the declared secrets from `.env` beside the config. They serve the author's own calls and are never stored. */
async function readSecrets({ folder, tools }: Settings): Promise<ReadonlyMap<string, Secret>> {
  const text = await readFile(join(folder, '.env'), 'utf8').catch(() => '')
  const declared = new Set(
    tools.flatMap(({ requirements }) => requirements?.secrets?.map(({ id }) => id) ?? []),
  )
  const found = Object.entries(parseEnv(text)).flatMap(([id, value]) =>
    declared.has(id) && value ? [[id, new Secret(value)] as const] : [],
  )
  return new Map(found.slice(0, MAX_SECRETS))
}

function readSettings(
  args: Arguments<DevOption>,
  context: CommandContext,
  load?: ImportModule,
): Promise<Settings> {
  const flags = defined({ host: HOST, port: args.integer('port', PORTS), store: args.text('store') })
  return loadSettings(args.text('config'), flags, context, load)
}

/** The tools of the previous start, kept in the data folder because each start is a separate process. */
class LastStart {
  readonly #file: string
  readonly #tools: readonly Pick<Tool, 'id' | 'definitionHash'>[]

  constructor({ dataFolder, tools }: Settings) {
    this.#file = join(dataFolder, 'dev-tools.json')
    this.#tools = tools
  }

  /** Describes each change: `Mail.Send@1.0.0 changed`. */
  async changes(): Promise<readonly string[]> {
    const before = await this.#read()
    const now = new Map(this.#tools.map(({ id, definitionHash }) => [id, definitionHash]))
    return [
      ...[...now].flatMap(([id, hash]) => {
        if (!before.has(id)) return [`${id} added`]
        return before.get(id) === hash ? [] : [`${id} changed`]
      }),
      ...[...before.keys()].filter((id) => !now.has(id)).map((id) => `${id} removed`),
    ]
  }

  async remember(): Promise<void> {
    const tools = Object.fromEntries(this.#tools.map(({ id, definitionHash }) => [id, definitionHash]))
    // If this fails, the next start compares its tools with an older list.
    await writeFile(this.#file, JSON.stringify(tools)).catch(() => undefined)
  }

  async #read(): Promise<ReadonlyMap<string, unknown>> {
    try {
      const written: unknown = JSON.parse(await readFile(this.#file, 'utf8'))
      return new Map(isRecord(written) ? Object.entries(written) : [])
    } catch {
      return new Map()
    }
  }
}

export const COMMANDS = [dev]
