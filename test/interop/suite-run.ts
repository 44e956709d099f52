import { spawn } from 'node:child_process'
import { globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { z } from 'zod'

/*
 * Runs the official conformance suite in its own process, as users run it, and reads what it found.
 * The scoreboard and its test use it.
 */

const PACKAGE = createRequire(import.meta.url).resolve('@modelcontextprotocol/conformance/package.json')
const CLI = join(dirname(PACKAGE), 'dist/index.js')
const ADAPTER = fileURLToPath(new URL('../conformance/mcp-client-adapter.ts', import.meta.url))
/** The suite runs all client scenarios at once and ends a client after 30 s by default, which a busy machine exceeds. */
const TIMEOUT_OPTION = ['--timeout', '600000']
const FLAGS = '--conditions=collet-source --disable-warning=ExperimentalWarning'

export const REVISIONS = ['2025-06-18', '2025-11-25', '2026-07-28'] as const
export type SuiteRevision = (typeof REVISIONS)[number]

export interface ScenarioResult {
  readonly passed: number
  readonly failed: number
  /** The failed checks: id and message. */
  readonly failures: readonly string[]
}

export type SuiteResult = ReadonlyMap<string, ScenarioResult>

export function suiteVersion(): string {
  return z.object({ version: z.string() }).parse(JSON.parse(readFileSync(PACKAGE, 'utf8'))).version
}

/** Every server scenario of a revision; with the extensions if the revision has them. */
export async function runServerSuite(
  url: string,
  revision: SuiteRevision,
  { hasExtensions = true } = {},
): Promise<SuiteResult> {
  const all = await run(['server', '--url', url, '--suite', 'all', '--spec-version', revision])
  if (revision !== '2026-07-28' || !hasExtensions) return all
  return new Map([...all, ...(await runExtensions(url))])
}

/** The scenarios of extensions of 2026-07-28, among them those of tasks. */
export async function runExtensions(url: string): Promise<SuiteResult> {
  const results = new Map<string, ScenarioResult>()
  const how = ['--spec-version', '2026-07-28', '--force']
  for (const scenario of await extensionScenarios())
    for (const [name, result] of await run(['server', '--url', url, '--scenario', scenario, ...how]))
      results.set(name, result)
  return results
}

/**
 * The client scenarios that a revision requires, and the unscored ones, against our source. The suite runs them all at once, and
 * its servers wait only seconds, too little for so many clients on a busy machine: a scenario that fails is run again, alone.
 */
export async function runClientSuite(revision: SuiteRevision): Promise<SuiteResult> {
  const command = ['client', '--command', `${process.execPath} ${FLAGS} ${ADAPTER}`, ...TIMEOUT_OPTION]
  const runAlone = async (scenario: string): Promise<SuiteResult> => {
    const results = await run([...command, '--scenario', scenario, '--spec-version', revision, '--force'])
    return new Map([...results.values()].map((result) => [scenario, result]))
  }
  const all = revision === '2025-06-18' ? undefined : await run([...command, '--requirements', revision])
  const results = new Map<string, ScenarioResult>(all)
  const failed = [...results].filter(([, result]) => result.failed > 0).map(([scenario]) => scenario)
  for (const scenario of all === undefined ? ['initialize', 'tools_call'] : failed)
    for (const [name, result] of await runAlone(scenario)) results.set(name, result)
  return results
}

async function extensionScenarios(): Promise<readonly string[]> {
  const { output } = await start(['list', '--server'])
  return [...output.matchAll(/^\s*- (\S+) \[extension\]/gm)].map(([, name]) => name ?? '')
}

async function run(args: readonly string[]): Promise<SuiteResult> {
  const folder = mkdtempSync(join(tmpdir(), 'collet-mcp-suite-'))
  try {
    const { output } = await start([...args, '-o', folder])
    const checked = readChecks(folder)
    const summary = [...output.matchAll(/^[✓✗] (\S+): (\d+) passed, (\d+) failed/gm)]
    if (summary.length === 0 && checked.size === 0) throw new Error(`the suite reported nothing:\n${output}`)
    // A scenario that is run alone has no summary.
    const counted = summary.map(([, name = '', passed, failed]): [string, ScenarioResult] => [
      name,
      { passed: Number(passed), failed: Number(failed), failures: checked.get(name)?.failures ?? [] },
    ])
    return counted.length > 0 ? new Map(counted) : checked
  } finally {
    rmSync(folder, { recursive: true })
  }
}

const checksShape = z.array(
  z.object({ id: z.string(), status: z.string(), errorMessage: z.string().optional() }),
)

function readChecks(folder: string): Map<string, ScenarioResult> {
  const results = new Map<string, ScenarioResult>()
  for (const file of globSync('**/checks.json', { cwd: folder })) {
    const name = dirname(file)
      .replace(/-\d{4}-\d\d-\d\dT[\d-]+Z$/, '')
      .replace(/^server-(?=.)/, '')
    const checks = checksShape.parse(JSON.parse(readFileSync(join(folder, file), 'utf8')))
    const failed = checks.filter(({ status }) => status === 'FAILURE')
    results.set(name, {
      passed: checks.filter(({ status }) => status === 'SUCCESS').length,
      failed: failed.length,
      failures: failed.map(({ id, errorMessage = '' }) => `${id}: ${errorMessage}`),
    })
  }
  return results
}

async function start(args: readonly string[]): Promise<{ readonly output: string }> {
  const child = spawn(process.execPath, [CLI, ...args], { stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (output += String(chunk)))
  await new Promise((resolve) => child.on('close', resolve))
  return { output }
}
