import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { afterAll, expect, it } from 'vitest'

const ROOT = resolve(import.meta.dirname, '../..')
const folder = mkdtempSync(join(tmpdir(), 'collet-image-'))
afterAll(() => rmSync(folder, { recursive: true }))

/** The `RUN` lines of a stage. */
function runsOf(stage: string): readonly string[] {
  const text = readFileSync(join(ROOT, 'deploy/Dockerfile'), 'utf8').replaceAll('\\\n', ' ')
  const [, rest = ''] = text.split(new RegExp(`^FROM .* AS ${stage}$`, 'm'))
  const [own = ''] = rest.split(/^FROM /m)
  return [...own.matchAll(/^RUN (.*)$/gm)].map(([, command = '']) => command)
}

/** Runs them in a folder that represents the root of the image. Packages come from npm's cache: nothing is fetched. */
function runStage(stage: string, workdir: string): void {
  for (const command of runsOf(stage)) {
    execFileSync('sh', ['-ec', command.replaceAll(' /tmp', ` ${folder}/tmp`)], {
      cwd: join(folder, workdir),
      env: {
        ...process.env,
        NODE_OPTIONS: '',
        npm_config_offline: 'true',
        PATH: `${dirname(process.execPath)}:${process.env.PATH}`,
      },
      stdio: 'pipe',
    })
  }
}

it('the image is built by the commands of its Dockerfile, and answers', () => {
  for (const made of ['src', 'app', 'tmp']) mkdirSync(join(folder, made))
  const tracked = execFileSync('git', ['ls-files', '-z'], { cwd: ROOT, encoding: 'utf8' })
  for (const file of tracked.split('\0').filter((path) => path !== '')) {
    cpSync(join(ROOT, file), join(folder, 'src', file), { recursive: true })
  }
  runStage('pack', 'src')
  runStage('install', 'app')
  const printed = execFileSync(process.execPath, [join(folder, 'app/bin/collet.js'), 'version'], {
    encoding: 'utf8',
    env: { PATH: process.env.PATH },
  })
  expect(printed).toMatch(/^collet \d/)
})
