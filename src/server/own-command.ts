import { existsSync } from 'node:fs'
import { basename, dirname, join, relative, sep } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The folder of this package: a checkout, or an installed copy. */
const ROOT = fileURLToPath(new URL('../../', import.meta.url)).replace(/[/\\]$/, '')
const IS_WINDOWS = process.platform === 'win32'

/**
 * The command that runs Collet in this folder: hints, help and pages use it. `npx collet` would
 * fetch a package from npm if Collet is not installed, so it is used only if Collet is installed.
 */
export function ownCommand(folder: string = process.cwd(), root: string = ROOT): string {
  if (isInstalledFor(folder)) return 'npx collet'
  if (existsSync(join(root, LAUNCHER))) return quoted(launcherFrom(folder, root))
  return isGlobal(root) ? 'collet' : `node ${quoted(join(root, 'bin', 'collet.js'))}`
}

/** The command to show on web pages. People on other machines may see it, so it contains no absolute path. */
export function commandOnPages(): string {
  const command = ownCommand()
  return /[/\\]/.test(command.slice(2)) ? 'collet' : command
}

const LAUNCHER = IS_WINDOWS ? 'collet.cmd' : 'collet'

/** npx searches the folder and the folders above it. */
function isInstalledFor(folder: string): boolean {
  if (existsSync(join(folder, 'node_modules', '.bin', LAUNCHER))) return true
  const parent = dirname(folder)
  return parent !== folder && isInstalledFor(parent)
}

/** The full path, or the relative path if it is shorter to type. */
function launcherFrom(folder: string, root: string): string {
  const launcher = join(root, 'collet')
  const path = relative(folder, launcher)
  const written = path.startsWith('..') ? path : `.${sep}${path}`
  return written.length < launcher.length ? written : launcher
}

/** npm links the executables of global packages beside the global `node_modules` folder on Windows, otherwise in `bin` above it. */
function isGlobal(root: string): boolean {
  const modules = dirname(root)
  if (basename(modules) !== 'node_modules') return false
  return existsSync(IS_WINDOWS ? join(modules, '..', LAUNCHER) : join(modules, '..', '..', 'bin', LAUNCHER))
}

function quoted(path: string): string {
  return /\s/.test(path) ? `"${path}"` : path
}
