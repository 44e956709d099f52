import { Tab, TabList, TabPanel, TabProvider } from '@ariakit/react'
import type { ReactNode } from 'react'

/*
 * Switches between views of the same data: a row of buttons, or tabs with panels. Used by several pages.
 */

export function Segment<Value extends string>(props: SegmentProps<Value>): ReactNode {
  const { label, value, options, onChange } = props
  return (
    <div className="seg" role="group" aria-label={label}>
      {options.map((option) => (
        <button
          key={option.value}
          type="button"
          aria-pressed={option.value === value}
          onClick={() => onChange(option.value)}
        >
          {option.label}
        </button>
      ))}
    </div>
  )
}

interface SegmentProps<Value extends string> {
  readonly label: string
  readonly value: Value
  readonly options: readonly { readonly value: Value; readonly label: ReactNode }[]
  readonly onChange: (value: Value) => void
}

/** Tabs with panels. Arrow keys move between the tabs. */
export function Tabs({ label, value, onChange, tabs, className }: TabsProps): ReactNode {
  return (
    <TabProvider
      selectedId={value}
      setSelectedId={(id) => {
        if (typeof id === 'string') onChange(id)
      }}
    >
      <TabList className={className === undefined ? 'tabs' : `tabs ${className}`} aria-label={label}>
        {tabs.map(({ id, title }) => (
          <Tab key={id} id={id}>
            {title}
          </Tab>
        ))}
      </TabList>
      {tabs.map(({ id, panel }) => (
        <TabPanel key={id} tabId={id} unmountOnHide>
          {panel}
        </TabPanel>
      ))}
    </TabProvider>
  )
}

interface TabsProps {
  readonly label: string
  readonly value: string
  readonly onChange: (id: string) => void
  readonly tabs: readonly { readonly id: string; readonly title: ReactNode; readonly panel: ReactNode }[]
  readonly className?: string
}
