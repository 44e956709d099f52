#!/usr/bin/env node
// The entry point of the command line: finds a Node that is new enough, and runs the sources of a checkout or the
// build of an installed package. Old versions of Node read this file too, so it uses no newer syntax.
import { spawn, spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import * as module from 'node:module'
import { homedir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const NODE_MAJOR = 24
const root = dirname(dirname(fileURLToPath(import.meta.url)))
/** The project with this package in its node_modules; `undefined` for a checkout. */
const project = basename(dirname(root)) === 'node_modules' ? dirname(dirname(root)) : undefined
const isOld = majorOf(process.versions.node) < NODE_MAJOR
const isFromSources = project === undefined && existsSync(join(root, 'src/cli/main.ts')) && !isBuildCurrent()

if (isOld && newerNode() === undefined)
  stop(`collet needs Node ${NODE_MAJOR}; this is Node ${process.versions.node}. ${nodeAdvice()}`)
else if (isFromSources) runSources()
else if (isOld) runWith(newerNode(), [fileURLToPath(import.meta.url)])
else await runBuild()

function stop(message) {
  process.stderr.write(`${message}\n`)
  process.exitCode = 2
}

function nodeAdvice() {
  const install = project === undefined ? `npm ci in ${root}` : `npm install node@${NODE_MAJOR} in ${project}`
  return `Run ${install}: collet then uses that one. Or install Node ${NODE_MAJOR} from https://nodejs.org.`
}

/** The Node of the npm package `node`, in a checkout or beside the installed package. */
function newerNode() {
  const folder = project === undefined ? join(root, 'node_modules/node') : join(project, 'node_modules/node')
  const file = join(folder, 'bin', process.platform === 'win32' ? 'node.exe' : 'node')
  if (!existsSync(file)) return undefined
  return majorOf(JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')).version) < NODE_MAJOR
    ? undefined
    : file
}

function majorOf(version) {
  return Number(version.split('.')[0])
}

/** The build writes this file last. */
function isBuildCurrent() {
  const last = join(root, 'dist/config.schema.json')
  return existsSync(last) && isOlder(join(root, 'src'), statSync(last).mtimeMs)
}

function isOlder(path, ms) {
  const stats = statSync(path)
  if (!stats.isDirectory()) return stats.mtimeMs < ms
  return readdirSync(path).every((name) => isOlder(join(path, name), ms))
}

function runSources() {
  const { dependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  const missing = Object.keys(dependencies).find((name) => !existsSync(join(root, 'node_modules', name)))
  if (missing !== undefined)
    return stop(`Packages that collet needs are not installed (${missing}). Run npm ci in ${root}.`)
  const node = newerNode() || process.execPath
  if (['serve', 'dev'].includes(process.argv[2]))
    spawnSync(node, [join(root, 'scripts/console.mjs')], { stdio: 'inherit' })
  runWith(node, [
    ...['--conditions=collet-source', '--disable-warning=ExperimentalWarning'],
    join(root, 'src/cli/main.ts'),
  ])
}

/** Runs the command in a child process and ends with its exit code. */
function runWith(node, program) {
  const child = spawn(node, [...program, ...process.argv.slice(2)], { stdio: 'inherit' })
  const isOnTerminal = [process.stdin, process.stdout, process.stderr].some((stream) => stream.isTTY)
  process.on('SIGTERM', () => child.kill('SIGTERM'))
  process.on('SIGHUP', () => child.kill('SIGHUP'))
  // A terminal sends Ctrl-C to the child as well.
  process.on('SIGINT', () => isOnTerminal || child.kill('SIGINT'))
  child.on('error', (error) => stop(`collet could not be started with ${node}: ${error.message}`))
  child.on('exit', (code) => {
    process.exitCode = code === null ? 3 : code
  })
}

async function runBuild() {
  // SQLite is tested here, so its experimental warning is hidden. All other warnings are shown.
  const emitWarning = process.emitWarning
  process.emitWarning = function emit(warning, ...details) {
    const text = warning instanceof Error ? warning.message : String(warning)
    if (!text.startsWith('SQLite is an experimental feature')) emitWarning.call(process, warning, ...details)
  }
  // The compile cache is in the user's own folder: a folder that others can write to could contain their code.
  // NODE_COMPILE_CACHE names another folder, NODE_DISABLE_COMPILE_CACHE=1 turns the cache off.
  try {
    module.enableCompileCache(
      process.env.NODE_COMPILE_CACHE || join(homedir(), '.cache', 'collet', 'compiled'),
    )
  } catch {
    // Without a home folder there is no cache.
  }
  await import('../dist/cli/main.js').catch((error) => {
    stop(`collet could not be started: ${error.message}\nIts installation is not complete: install it again.`)
    process.exitCode = 3
  })
}
