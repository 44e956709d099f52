// The package as a whole would ask for its tests' packages, too.
import withTheme from '@rjsf/core/lib/withTheme.js'
import { Component, type ReactNode, useMemo } from 'react'
import { Note } from '../../../parts/meaning.tsx'
import type { Schema } from '../tool-data.ts'
import { formValidator } from './form-check.ts'
import { AnyJsonField } from './form-fields.tsx'
import { toFormSchema } from './form-schema.ts'
import { TEMPLATES } from './form-templates.tsx'
import { WIDGETS } from './form-widgets.tsx'

interface InputFormProps {
  readonly schema: Schema
  readonly value: unknown
  readonly onChange: (value: unknown) => void
  /** What the server said about fields, by their path: names joined with a slash. */
  readonly errors: ReadonlyMap<string, string>
}

const Form = withTheme({
  templates: TEMPLATES,
  widgets: WIDGETS,
  fields: { FallbackField: AnyJsonField },
})

/** The input as fields, made from the tool's schema. What has no field is written as JSON beside it. */
export function InputForm({ schema, value, onChange, errors }: InputFormProps): ReactNode {
  const formSchema = useMemo(() => toFormSchema(schema), [schema])
  return (
    <Boundary key={JSON.stringify(schema)}>
      <Form
        tagName="div"
        className="input-form"
        idPrefix="in"
        idSeparator="/"
        schema={formSchema}
        uiSchema={UI}
        validator={formValidator}
        formData={value}
        formContext={{ errors }}
        onChange={({ formData }, id) => {
          // Without a field that changed it is what the library would fill in by itself.
          if (id !== undefined) onChange(withoutUndefined(formData))
        }}
        experimental_defaultFormStateBehavior={{
          emptyObjectFields: 'skipDefaults',
          arrayMinItems: { populate: 'never' },
          constAsDefaults: 'never',
        }}
        showErrorList={false}
        noValidate
        noHtml5Validate
      >
        {/* Instead of its own button. */}
        <span hidden />
      </Form>
    </Boundary>
  )
}

const UI = { 'ui:globalOptions': { orderable: false, copyable: false } }

/** An emptied field is a member that is not there. */
function withoutUndefined(value: unknown): unknown {
  return value === undefined ? {} : JSON.parse(JSON.stringify(value))
}

/** Schemas come from anywhere, and the library cannot read them all. */
class Boundary extends Component<{ readonly children: ReactNode }, { readonly hasFailed: boolean }> {
  override state = { hasFailed: false }

  static getDerivedStateFromError(): { hasFailed: boolean } {
    return { hasFailed: true }
  }

  override render(): ReactNode {
    if (!this.state.hasFailed) return this.props.children
    return <Note>No form can be made from this schema. Write the input as JSON.</Note>
  }
}
