import type { Settings } from '#config/settings'
import type { CommandContext } from './command.ts'
import { exampleCurl } from './example-call.ts'
import { EXIT, type ExitCode } from './exit-codes.ts'
import type { RunningServer } from './services.ts'
import { explainStartFailure } from './start-failure.ts'

/** Starts the server, says where it is, and stays until somebody asks it to stop. */
export async function serveUntilStopped(
  settings: Settings,
  options: { readonly allowAnonymous: boolean },
  context: CommandContext,
): Promise<ExitCode> {
  const { output, services } = context
  const stop = listenForStop(context)
  let server: RunningServer
  try {
    server = await output.during('Starting', services.startServer(settings, options))
  } catch (error) {
    stop.end()
    const explained = explainStartFailure(error, settings)
    if (explained === undefined) throw error
    output.error(explained)
    return EXIT.server
  }
  announce(server, settings, context)
  await stop.requested
  output.note('Stopping: running calls may finish. Ask again to stop at once.')
  await server.close()
  stop.end()
  return EXIT.ok
}

/** The first request ends the wait, the second one ends the process. */
function listenForStop({ onStop, exit }: CommandContext): { requested: Promise<void>; end: () => void } {
  const { promise, resolve } = Promise.withResolvers<void>()
  let asked = false
  const end = onStop(() => {
    if (asked) exit(EXIT.server)
    asked = true
    resolve()
  })
  return { requested: promise, end }
}

function announce(server: RunningServer, settings: Settings, { output, json }: CommandContext): void {
  const { url, startTokenFile } = server
  const curl = exampleCurl(url, settings)
  if (json) {
    output.json({ url, store: settings.store, tools: settings.tools.length, startTokenFile, curl })
    return
  }
  const count = settings.tools.length === 1 ? '1 tool' : `${settings.tools.length} tools`
  output.data(`${output.style('bold', 'Collet')} serves ${count} on ${output.style('cyan', url)}`)
  output.data('')
  if (curl !== undefined) output.data(`  Try it       ${curl}`)
  output.data(`  Data         ${whereDataLives(settings)}`)
  if (startTokenFile !== undefined) {
    output.data(`  Start token  ${startTokenFile} (for settling calls and other decisions)`)
  }
  output.data('')
}

function whereDataLives({ store }: Settings): string {
  return store === 'memory:' ? 'in memory: gone when the server stops' : store.slice('sqlite:'.length)
}
