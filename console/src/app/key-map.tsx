import { useNavigate } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { useSession } from '../api/session.ts'
import { setSingleKeys, singleKeys, useKey } from '../keyboard.ts'
import { Dialog } from '../parts/dialog.tsx'
import { Checkbox } from '../parts/field.tsx'
import { useStore } from '../store.ts'
import { openDialog, type PagePath, pagesFor } from './pages.ts'
import { toggleTheme } from './theme.ts'

/*
 * The shortcuts that work on all pages, and the list that `?` opens. Used by `frame.tsx`. No shortcut approves, rejects, settles or
 * revokes.
 */

export function KeyMap(): ReactNode {
  const isOpen = useStore(openDialog) === 'keys'
  const isOn = useStore(singleKeys)
  const pages = pagesFor(useSession())
  useKey('?', () => openDialog.set('keys'))
  useKey('t', toggleTheme)
  useKey('/', () => document.querySelector<HTMLElement>('[data-page-search]')?.focus())
  return (
    <>
      {pages.map((page) => (
        <GoTo key={page.to} to={page.to} letter={page.key} />
      ))}
      <Dialog title="Keyboard shortcuts" isOpen={isOpen} onClose={() => openDialog.set('nothing')}>
        <dl className="kv keymap">
          {shortcutsOf(pages).map(([keys, effect]) => (
            <div key={effect}>
              <dt>
                {keys.split(' ').map((key) => (
                  <kbd key={key}>{key}</kbd>
                ))}
              </dt>
              <dd>{effect}</dd>
            </div>
          ))}
        </dl>
        <Checkbox
          label="Enable letter shortcuts"
          checked={isOn}
          onChange={(event) => setSingleKeys(event.currentTarget.checked)}
        />
      </Dialog>
    </>
  )
}

function GoTo({ to, letter }: GoToProps): ReactNode {
  const navigate = useNavigate()
  useKey(`g ${letter}`, () => void navigate({ to }))
  return null
}

interface GoToProps {
  readonly to: PagePath
  readonly letter: string
}

function shortcutsOf(pages: ReturnType<typeof pagesFor>): readonly (readonly [string, string])[] {
  return [
    ['⌘K Ctrl+K', 'Open a page or a tool'],
    ...pages.map(({ key, name }) => [`g ${key}`, `Go to ${name}`] as const),
    ['/', 'Search or filter this page'],
    ['j k ↓ ↑', 'Move in a list'],
    ['↵', 'Open'],
    ['esc', 'Close a dialog, clear a search, or leave a field'],
    ['⌘↵ Ctrl+↵', 'Run the tool (Try it)'],
    ['l', 'Turn live updates on or off (Calls)'],
    ['y', "Copy this page's command"],
    ['t', 'Switch theme'],
    ['?', 'Show these shortcuts'],
  ]
}
