import { useNavigate } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { setSingleKeys, singleKeys, useKey } from '../keyboard.ts'
import { Dialog } from '../parts/dialog.tsx'
import { Checkbox } from '../parts/field.tsx'
import { useStore } from '../store.ts'
import { over, PLACES } from './places.ts'
import { toggleTheme } from './theme.ts'

/** Shortcuts that work everywhere, and the list of all shortcuts behind `?`. No shortcut approves, rejects, settles or revokes. */
export function KeyMap(): ReactNode {
  const isOpen = useStore(over) === 'keys'
  const isOn = useStore(singleKeys)
  useKey('?', () => over.set('keys'))
  useKey('t', toggleTheme)
  useKey('/', () => document.querySelector<HTMLElement>('[data-page-search]')?.focus())
  return (
    <>
      {PLACES.map((place) => (
        <GoTo key={place.to} to={place.to} letter={place.key} />
      ))}
      <Dialog title="Keys" isOpen={isOpen} onClose={() => over.set('nothing')}>
        <dl className="kv keymap">
          {MAP.map(([keys, does]) => (
            <div key={does}>
              <dt>
                {keys.split(' ').map((key) => (
                  <kbd key={key}>{key}</kbd>
                ))}
              </dt>
              <dd>{does}</dd>
            </div>
          ))}
        </dl>
        <Checkbox
          label="Enable single-key shortcuts"
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
  readonly to: (typeof PLACES)[number]['to']
  readonly letter: string
}

const MAP: readonly (readonly [string, string])[] = [
  ['⌘K Ctrl+K', 'Open a page or a tool'],
  ...PLACES.map(({ key, name }) => [`g ${key}`, `Go to ${name}`] as const),
  ['/', 'Search or filter the page'],
  ['j k ↓ ↑', 'Move in a list'],
  ['↵', 'Open'],
  ['esc', 'Close, clear, or leave a field'],
  ['⌘↵ Ctrl+↵', 'Run, in Try it'],
  ['l', 'Toggle live, in Calls'],
  ['y', 'Copy the command of the page'],
  ['t', 'Switch theme'],
  ['?', 'Show these shortcuts'],
]
