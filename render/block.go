package render

// Section is one part of the page, in page order. Blocks are drawn by render/html; the workbook draws from the Report.
type Section struct {
	ID     string // stable anchor
	Title  string
	Lead   string // one or two sentences
	Count  string // at its entry in the rail; "" none
	Rail   string // entry in the rail; "" is the title; "-" no entry
	Blocks []Block
}

// Block is one drawn thing. Every number in it is final text or a share ready to be drawn: a page does no sums.
type Block interface{ block() }

// FirstScreen is the verdict, the hero bars and the four columns.
type FirstScreen struct {
	Facts                                       []string // hardware, wall time, window: the header's small words
	Class                                       string
	Cause                                       string // "" none
	Sentence                                    string
	Lead                                        string
	Notes                                       []Note // data lost, and the like: between verdict and hero
	Caption                                     string // of the hero bars
	Hero                                        []Bar
	HeroCurve                                   *Lane // in place of bars when there is no ledger
	CostBig, CostOf, CostText                   string
	Sure                                        string // measured, inferred or hint
	SureText                                    string
	Do                                          []Do
	Dont                                        []string
	UnseenBig, UnseenOf, UnseenText, UnseenLink string
}

// Do is one thing to do next; Command may be "".
type Do struct{ Lead, Text, Command string }

// Note is a dashed-edge remark.
type Note struct{ Strong, Text, LinkText, Link string }

// Bar is a stacked bar on a common scale; segment widths are shares of the scale.
type Bar struct {
	Name, Sub string
	ID        string // anchor, "" none
	Bold      bool
	Segs      []Seg
	Total     string
	Side      float64 // hidden communication as a share of the scale
	Cells     []Cell  // values beside the bar
	Alt       string  // the sentence for a screen reader
}

// Seg is one owner's piece of a bar.
type Seg struct {
	Owner string  // ledger owner: picks hue and texture
	Frac  float64 // of the scale
	Label string  // drawn if it fits with 6 px to spare
	Short string  // drawn if that fits instead
	Tip   string
}

// Cell is one table cell.
type Cell struct {
	Text     string
	Owner    string  // swatch before the text; "" none
	Bar      float64 // share for a bar in the cell; 0 none
	BarOwner string
	Segs     []Seg  // a stacked bar in the cell, on the column's scale
	Link     string // #anchor, "" none
	Title    string // full text on hover and for assistive tools, "" none
	Weak     bool   // ink3
	Strong   bool
	Code     bool
	Dashed   bool // unknown
}

// Column is a table heading.
type Column struct {
	Title  string
	Owners []string // swatches in the heading
	Num    bool     // right aligned, tabular digits
	Wide   bool     // may take the rest of the width
	More   bool     // hidden under 560 px behind "More columns"
	Bar    bool
}

// Table is a plain table with bars.
type Table struct {
	ID      string
	Title   string
	Lead    string
	Columns []Column
	Rows    []Row
	Shown   int // rows shown before "Show"; 0 all
	Foot    string
}

// Row is one line of a table.
type Row struct {
	ID    string
	Cells []Cell
	Bold  bool
}

// LedgerBars is the ledger table: a bar a GPU on one scale and values by owner family.
type LedgerBars struct {
	Title      string   // "" none
	ScaleLabel string   // "Step, 0 to 422 ms"
	Columns    []Column // of Bar.Cells
	Bars       []Bar
	Notes      []Note
}

// StepChart is the step by step stack of one rank, with a chooser.
type StepChart struct {
	Ranks   []StepSeries
	Show    int     // index of the one shown first
	Unit    string  // ms or s
	AxisMax float64 // in Unit
	Note    string
}

// StepSeries is one rank's steps in StepChart.Unit.
type StepSeries struct {
	Name   string
	Late   bool
	Median float64
	Index  []int64
	Owners []StepStack // palette order, only owners that occur
	Cut    []CutMark   // steps taller than the axis
}

// StepStack is one owner's value a step.
type StepStack struct {
	Owner string    `json:"owner"`
	Value []float64 `json:"value"`
}

// CutMark labels a step taller than the axis.
type CutMark struct {
	At    int    `json:"at"`
	Label string `json:"label"`
}

// TimeLine is the one time line: readings above, ledger rows below, one axis in seconds from the window's start.
type TimeLine struct {
	StartS, EndS            float64
	Legend                  []string // owners that occur, palette order
	Events                  []Event
	Missing                 []string // lanes that were not recorded, in words
	Lanes                   []Lane   // utilisation first
	Rows                    []GPURow
	Dips                    []DipMark
	Note                    string     // intervals kept for 36 of 5000 steps
	NoTrace                 string     // in place of rows
	SlowestStep, MedianStep [2]float64 // start and end, s; zero: none
}

// Event is a labelled stretch in the events lane.
type Event struct {
	StartS, EndS float64
	Label        string
	Owner        string // "" drawn as an outline
}

// Lane is one reading: dashes, dots or steps.
type Lane struct {
	Title    string
	Sub      []string // window, file, clock error
	Unit     string
	Min, Max float64
	Covers   string // instant, window, total
	WindowS  float64
	ErrorS   float64
	Curves   []Curve
	Limits   []Limit
	Hatch    []Event   // throttled stretches
	Dips     []DipMark // marks above the curve; the first screen only
	Table    *Table    // the first 200 rows as a table
}

// Curve is one GPU's readings; Band marks the grey band of all the others.
type Curve struct {
	Name      string
	Odd       bool // the one that differs: drawn bold
	AtS       []float64
	Value     []float64
	Low, High []float64 // for the band: lowest and highest GPU; Value is the middle
}

// Limit is a dashed line.
type Limit struct {
	Value float64
	Label string
}

// GPURow is one ledger row of the time line.
type GPURow struct {
	ID, Name  string
	Late      bool
	Steps     []StepBox
	Intervals []IntervalBox
	Hole      []Event // not read
}

// StepBox is one step: owners in palette order as shares of the step.
type StepBox struct {
	Index  int64     `json:"i"`
	StartS float64   `json:"s"`
	DurS   float64   `json:"d"`
	Owners []int     `json:"o"` // index into TimeLine palette (ledger owner number)
	Fracs  []float64 `json:"f"`
}

// IntervalBox is one kept interval.
type IntervalBox struct {
	StartS float64 `json:"s"`
	DurS   float64 `json:"d"`
	Owner  int     `json:"o"`
}

// DipMark is a lettered dip above the utilisation lane.
type DipMark struct {
	ID           string
	StartS, EndS float64
	Owner        string // longest holder; "" nobody can be named
	Label        string
}

// Checklist is the seven stages with every check.
type Checklist struct{ Stages []Stage }

// Stage is one checklist stage.
type Stage struct {
	ID, Title, Question string
	N                   int
	Counts              string   // 1 finding, 3 unknown, 7 pass
	Cells               []string // outcome a check, for the cells
	Rows                []CheckRow
	Folded              string // "6 more pass: ..." ; "" none
	FoldedRows          []CheckRow
}

// CheckRow is one check's line and its fold-out.
type CheckRow struct {
	Anchor                  string
	ID                      string
	Subject                 string // "" when the rule has one subject
	Outcome                 string // finding, unknown, pass, not-asked
	Tag                     string // severity word, unknown, pass, not asked
	Says                    string
	Saving                  string // ≤ 21 %, same time, unknown, ""
	SavingFrac              float64
	SavingHollow            bool
	Confidence              string
	Open                    bool
	Numbers                 []NumberRow
	SavingText, OverlapText string
	Do, Dont                []string
	Withheld                []WithheldRow
	LooksLike               string
	Refs                    []string
	RefsFoot                string
	Missing                 []MissingRow
	Subjects                []SubjectRow // each subject, when the rule speaks of more than one
	Jump                    string       // anchor in the time line, "" none
}

// NumberRow is a number against its limit.
type NumberRow struct{ Name, ID, Value, Limit, Source string }

// WithheldRow is advice held back.
type WithheldRow struct{ Say, Gate, Why, Command string }

// MissingRow is what an unknown waits for.
type MissingRow struct{ Fact, Why, Command string }

// Commands is the capture plan.
type Commands struct {
	Items []CommandItem
	Foot  string
}

// CommandItem is one command to paste.
type CommandItem struct {
	N       int
	ID      string
	Title   string
	Where   string
	Command string
	Answers string
}

// Lanes are hardware readings, one chart a lane.
type Lanes struct {
	StartS, EndS float64
	Lanes        []Lane
	Missing      []string
}

// Matrix is a square table of how parts are joined, shaded by how near they are.
type Matrix struct {
	ID, Title string
	Parts     []string
	Cells     [][]MatrixCell // [row][column]
	Legend    []string       // the words that occur, near to far
}

// MatrixCell is one pair. Level: 0 itself, 1 nearest to 6 farthest, -1 not known.
type MatrixCell struct {
	Text  string
	Level int
}

// HeatMap is how late each rank was: a row a rank and a column a step, or a tile a rank. Grey alone: hues belong to owners.
type HeatMap struct {
	ID, Title, Lead string
	Alt             string   // the sentence for a screen reader
	Tiles           bool     // cells keep their size
	Columns         int      // cells of a row
	Ticks           []Tick   // below the rows; above tiles
	Heads           []string // of Row.Cells
	Rows            []HeatRow
	Marks           []Mark   // of tiles: columns in a frame, named below
	Legend          []string // class by class, from blank to latest
	Unknown         bool     // some cell is not known
	Foot            string
	Table           *Table
}

// HeatRow is one line. Level: 0 blank, 1 to 5 later, -1 not known, -2 no cell.
type HeatRow struct {
	Name   string
	Head   string // above the row: the host and its clock; "" none
	Bold   bool
	Levels []int
	Cells  []Cell
}

// Tick is a word at a column.
type Tick struct {
	At   int
	Text string
}

// Mark is a frame around cells and a word about them.
type Mark struct {
	Column, Row, Rows int
	Text              string
	Bold              bool
}

// WaitCharts are who waited for whom in single steps, each on its own axis.
type WaitCharts struct {
	ID, Title, Lead string
	Legend          []string // owners that occur
	Charts          []WaitChart
	Table           *Table
}

// WaitChart is one step: lanes of ranks, starts and widths as shares of the axis.
type WaitChart struct {
	Title string
	Said  string // who waited for whom, in a sentence
	Lanes []WaitLane
	Ticks []string // evenly from the left edge to the right
	Foot  string
}

// WaitLane is one rank.
type WaitLane struct {
	Name string
	Bold bool
	Alt  string
	Segs []WaitSeg
}

// WaitSeg is a stretch of a lane.
type WaitSeg struct {
	At, Frac   float64
	Owner, Tip string
}

// Dots is a chart of measurements: speeds by size with the expected speed as a line, or step times.
type Dots struct {
	ID, Title, Alt string
	Unit           string
	Dots           []Dot
	Lines          [][]Dot // expected speeds, by At
	XTicks, YTicks []DotTick
	Legend         []string // of a dot, a hollow one, a weak one and the lines; "" does not occur
	Foot           string
	Table          *Table
	Plain          bool // over the whole width, in ink: the dots are of no owner
}

// Dot is placed in shares of the chart, from its lower left.
type Dot struct {
	At, Value float64
	Hollow    bool // across hosts
	Weak      bool
	Tip       string
}

// DotTick is a word at a share of an axis.
type DotTick struct {
	At   float64
	Text string
}

// Prose is a paragraph.
type Prose struct{ Text string }

// NoteBlock is a remark between blocks.
type NoteBlock struct{ Note Note }

func (FirstScreen) block() {}
func (Table) block()       {}
func (LedgerBars) block()  {}
func (StepChart) block()   {}
func (TimeLine) block()    {}
func (Checklist) block()   {}
func (Commands) block()    {}
func (Lanes) block()       {}
func (Matrix) block()      {}
func (HeatMap) block()     {}
func (WaitCharts) block()  {}
func (Dots) block()        {}
func (Prose) block()       {}
func (NoteBlock) block()   {}

// SubjectRow is one subject's outcome of a rule that speaks of several.
type SubjectRow struct{ Name, Outcome, Saving, Says string }
