import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type ServerProcess, startCollet } from '../e2e/server-process.ts'
import { type MarkdownBlock, readBlocks } from './markdown-blocks.ts'
import { matchesSample } from './matches-sample.ts'

const run = promisify(execFile)
const ROOT = resolve(import.meta.dirname, '../..')
const NODE = [process.execPath, '--conditions=source', '--disable-warning=ExperimentalWarning']
const DOCUMENTED_URL = 'http://127.0.0.1:4100'

let folder: string
let server: ServerProcess

/** A project as a newcomer has it: a config, and this package under node_modules. */
function makeProject(): string {
  const project = mkdtempSync(join(tmpdir(), 'collet-docs-'))
  mkdirSync(join(project, 'node_modules'))
  symlinkSync(ROOT, join(project, 'node_modules/collet'))
  symlinkSync(join(ROOT, 'node_modules/zod'), join(project, 'node_modules/zod'))
  writeFileSync(join(project, 'package.json'), '{"type":"module"}')
  return project
}

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
  folder = makeProject()
  writeFileSync(
    join(folder, 'collet.config.ts'),
    `import demo from ${JSON.stringify(join(ROOT, 'examples/demo/collet.config.ts'))}
     export default { ...demo, server: { port: 0 } }`,
  )
  server = await startCollet(['serve'], { cwd: folder })
})

afterAll(async () => {
  await server.stop()
  rmSync(folder, { recursive: true })
})

/** `npm ci` ran before any test could; `npm start` has an end-to-end test of its own. */
const RUN_ELSEWHERE = new Set(['npm ci && npm start\n'])

describe.each(['README.md', 'docs/protocols/otc.md', 'docs/protocols/openwop.md'])(
  'the shell blocks of %s',
  (file) => {
    const blocks = readBlocks(file)
    const shell = blocks
      .map((block, index) => ({ block, sample: sampleAfter(blocks, index) }))
      .filter(({ block }) => block.language === 'sh' && !RUN_ELSEWHERE.has(block.text))

    it('are there', () => {
      expect(shell.length).toBeGreaterThan(1)
    })

    it.each(shell.map(({ block, sample }) => [block.line, block, sample] as const))(
      'line %i runs and answers what is shown',
      async (_line, block, sample) => {
        const output = await runShell(block.text)
        if (sample === undefined) return
        const lastAnswer: unknown = JSON.parse(output.slice(lastAnswerStart(output)))
        const shown: unknown = JSON.parse(sample.text.replaceAll(DOCUMENTED_URL, server.url))
        if (!matchesSample(shown, lastAnswer)) expect(lastAnswer).toEqual(shown)
      },
    )
  },
)

/** Answers follow each other without a space; an OTC answer begins with `$schema`, an openwop one with its id. */
function lastAnswerStart(output: string): number {
  return Math.max(0, output.lastIndexOf('{"$schema"'), output.lastIndexOf('{"toolId"'))
}

function sampleAfter(blocks: readonly MarkdownBlock[], index: number): MarkdownBlock | undefined {
  const next = blocks[index + 1]
  return next?.language === 'json' ? next : undefined
}

describe('the TypeScript blocks of README.md', () => {
  const [config, client] = readBlocks('README.md').filter(({ language }) => language === 'ts')

  it('the config loads and its tool is listed', async () => {
    const project = makeProject()
    mkdirSync(join(project, 'tools'))
    writeFileSync(join(project, 'collet.config.ts'), config?.text ?? '')
    writeFileSync(
      join(project, 'tools/greet.ts'),
      "import { tool } from 'collet'\nexport const greet = tool({ id: 'Hello.Greet@1.0.0', description: 'Greets.', input: {}, output: { type: 'string' }, run: () => 'hi' })\n",
    )
    const [node = '', ...flags] = NODE
    const { stdout } = await run(node, [...flags, join(ROOT, 'src/cli/main.ts'), 'tools', '--json'], {
      cwd: project,
    })
    rmSync(project, { recursive: true })
    expect(stdout).toContain('Calculator.Add@1.0.0')
    expect(stdout).toContain('Hello.Greet@1.0.0')
  })

  it('the client calls the tool', async () => {
    const file = join(folder, 'call.ts')
    writeFileSync(file, (client?.text ?? '').replaceAll(DOCUMENTED_URL, server.url))
    const [node = '', ...flags] = NODE
    const { stdout } = await run(node, [...flags, file], { cwd: folder })
    expect(stdout).toBe('5\n')
  })
})

describe('matchesSample', () => {
  it('notices a wrong value, a missing and a surplus member', () => {
    const sample = { a: 1, b: ['…x'], duration: 0.2 }
    expect(matchesSample(sample, { a: 1, b: ['yyx'], duration: 7 })).toBe(true)
    expect(matchesSample(sample, { a: 2, b: ['yyx'], duration: 7 })).toBe(false)
    expect(matchesSample(sample, { a: 1, b: ['yy'], duration: 7 })).toBe(false)
    expect(matchesSample(sample, { a: 1, b: ['yyx'] })).toBe(false)
    expect(matchesSample(sample, { a: 1, b: ['yyx'], duration: 7, c: 1 })).toBe(false)
  })
})
