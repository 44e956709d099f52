import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type ServerProcess, startCollet } from '../e2e/server-process.ts'
import { installProject } from './installed-project.ts'
import { type MarkdownBlock, readBlocks } from './markdown-blocks.ts'
import { matchesSample } from './matches-sample.ts'

const run = promisify(execFile)
const ROOT = resolve(import.meta.dirname, '../..')
const BUILD_LIMIT_MS = 180_000
const DOCUMENTED_URL = 'http://127.0.0.1:4100'

let folder: string
let server: ServerProcess
/** With the built package installed. */
let project: string
const env = { ...process.env, PATH: `${dirname(process.execPath)}:${process.env.PATH}`, NODE_OPTIONS: '' }

/** Runs a shell block against the test's server instead of the documented address. */
async function runShell(block: string): Promise<string> {
  const { stdout } = await run('sh', ['-ec', block.replaceAll(DOCUMENTED_URL, server.url)], {
    cwd: ROOT,
    env: {
      ...process.env,
      PATH: `${join(import.meta.dirname, 'bin')}:${dirname(process.execPath)}:${process.env.PATH}`,
      COLLET_URL: server.url,
      COLLET_CONFIG: join(folder, 'collet.config.ts'),
    },
  })
  return stdout
}

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'collet-docs-'))
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}')
  writeFileSync(
    join(folder, 'collet.config.ts'),
    `import demo from ${JSON.stringify(join(ROOT, 'examples/demo/collet.config.ts'))}
     export default { ...demo, server: { port: 0 } }`,
  )
  server = await startCollet(['serve'], { cwd: folder })
  project = installProject()
}, BUILD_LIMIT_MS)

afterAll(async () => {
  await server.stop()
  for (const made of [folder, project]) rmSync(made, { recursive: true })
})

describe.each(['docs/protocols/otc.md', 'docs/protocols/openwop.md', 'docs/protocols/mcp.md'])(
  'the shell blocks of %s',
  (file) => {
    const blocks = readBlocks(file)
    const shell = blocks
      .map((block, index) => ({ block, sample: sampleAfter(blocks, index) }))
      .filter(({ block }) => block.language === 'sh')

    it('exist', () => {
      expect(shell.length).toBeGreaterThan(1)
    })

    it.each(shell.map(({ block, sample }) => [block.line, block, sample] as const))(
      'line %i runs and gets the shown answer',
      async (_line, block, sample) => {
        const output = await runShell(block.text)
        if (sample === undefined) return
        if (sample.language === 'text') {
          expect(output.trimEnd()).toMatch(patternOf(sample.text))
          return
        }
        const lastAnswer: unknown = JSON.parse(output.slice(lastAnswerStart(output)))
        const shown: unknown = JSON.parse(sample.text.replaceAll(DOCUMENTED_URL, server.url))
        if (!matchesSample(shown, lastAnswer)) expect(lastAnswer).toEqual(shown)
      },
    )
  },
)

/** Answers follow each other without a separator; an OTC answer begins with `$schema`, a descriptor with its id. */
function lastAnswerStart(output: string): number {
  if (output.startsWith('{"events"')) return 0
  if (output.startsWith('{"jsonrpc"')) return output.lastIndexOf('{"jsonrpc"')
  return Math.max(0, output.lastIndexOf('{"$schema"'), output.lastIndexOf('{"toolId"'))
}

function sampleAfter(blocks: readonly MarkdownBlock[], index: number): MarkdownBlock | undefined {
  const next = blocks[index + 1]
  return next?.language === 'json' || next?.text.startsWith(': ') === true ? next : undefined
}

/** The whole of a text, where `…` stands for anything. */
function patternOf(text: string): RegExp {
  const literal = text.trimEnd().replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')
  return new RegExp(`^${literal.replaceAll('…', '.+')}$`)
}

describe('docs/embedding.md', () => {
  const files = readBlocks('docs/embedding.md')

  it('has an example of each', () => {
    expect(files.map(fileOf)).toEqual([
      'gateway.ts',
      'counter.ts',
      'serve.ts',
      'mounted.ts',
      'app/agent/[...path]/route.ts',
      'next.config.mjs',
      'greet.test.ts',
      'twice.test.ts',
    ])
  })

  // The files for Next are built and started by test/embedding/next.long.test.ts.
  const programs = files.filter((block) => !/^(app\/|next\.)/.test(fileOf(block)))

  it.each(programs.map((block) => [fileOf(block), block] as const))(
    '%s runs as printed',
    async (name, { text }) => {
      writeFileSync(join(project, name), text)
      const { stdout } = await run(process.execPath, [name], { cwd: project, env })
      const printed = [...text.matchAll(/console\.log\(.*\) \/\/ → (.*)$/gm)].map(([, shown]) => shown)
      if (printed.length > 0) expect(stdout.trimEnd().split('\n')).toEqual(printed)
      else expect(stdout).toMatch(/pass 1$/m)
    },
  )
})

describe('"From your own program" of docs/approvals.md', () => {
  it('runs as printed', async () => {
    const block = readBlocks('docs/approvals.md').find(({ text }) => text.startsWith('// approve.ts'))
    writeFileSync(join(project, fileOf(block)), block?.text ?? '')
    const { stdout } = await run(process.execPath, [fileOf(block)], { cwd: project, env })
    const shown = [...(block?.text ?? '').matchAll(/console\.log\(.*\) \/\/ → (.*)$/gm)]
    expect(stdout.trimEnd().split('\n')).toEqual(shown.map(([, printed]) => printed))
    expect(shown).toHaveLength(4)
  })
})

describe('"Tools that keep state" of docs/configuration.md', () => {
  it('shows a tool that loads, and has separate state in a call without a session', async () => {
    const block = readBlocks('docs/configuration.md').find(({ text }) => text.includes('session: {'))
    expect(fileOf(block)).toBe('counter.ts')
    writeFileSync(join(project, 'counter.ts'), block?.text ?? '')
    writeFileSync(
      join(project, 'count.ts'),
      `import { createGateway } from 'collet'
       import { count } from './counter.ts'
       const gateway = await createGateway({ tools: [count], store: 'memory:' })
       for (const _ of [1, 2]) console.log(await gateway.call('Counter.Next', {}).then(({ value }) => value))
       await gateway.close()`,
    )
    expect((await run(process.execPath, ['count.ts'], { cwd: project, env })).stdout).toBe('1\n1\n')
  })
})

/** The name in the comment on a block's first line. */
function fileOf(block: MarkdownBlock | undefined): string {
  return /^\/\/ (\S+)\n/.exec(block?.text ?? '')?.[1] ?? ''
}

describe('matchesSample', () => {
  it('detects a wrong value, a missing and a surplus member', () => {
    const sample = { a: 1, b: ['…x'], duration: 0.2 }
    expect(matchesSample(sample, { a: 1, b: ['yyx'], duration: 7 })).toBe(true)
    expect(matchesSample(sample, { a: 2, b: ['yyx'], duration: 7 })).toBe(false)
    expect(matchesSample(sample, { a: 1, b: ['yy'], duration: 7 })).toBe(false)
    expect(matchesSample(sample, { a: 1, b: ['yyx'] })).toBe(false)
    expect(matchesSample(sample, { a: 1, b: ['yyx'], duration: 7, c: 1 })).toBe(false)
  })
})
