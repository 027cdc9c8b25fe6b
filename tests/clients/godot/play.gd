# A game without a screen: greets the guard, bribes him when he has said some words, and prints what happens.
extends SceneTree

const PATIENCE_S := 60.0
const WORDS_BEFORE_BRIBE := 3

var _game: Node
var _clock := 0.0
var _asked := 0
var _words := 0
var _lines := 0
var _cuts := 0
var _is_loud := false


func _initialize() -> void:
	_game = load("res://footlights.gd").new()
	_game.url = OS.get_cmdline_user_args()[0]
	_game.line_started.connect(func(who, text): _lines += 1; _words = 0; print("line\t%s\t%s" % [who, text]))
	_game.word_spoken.connect(func(who, word): _words += 1; print("word\t%s\t%s" % [who, word]))
	_game.line_cut.connect(func(who, heard): _cuts += 1; print("cut\t%s\t%s" % [who, heard]))
	root.add_child(_game)


func _process(delta: float) -> bool:
	_clock += delta
	if _asked == 0 and _game._voices.size() > 0:
		_asked = 1
		_game.act("guard", "greet")
	if _asked == 1 and _words >= WORDS_BEFORE_BRIBE:
		_asked = 2
		_game.act("guard", "bribe")
	for name in _game._voices:
		for sample in _game._voices[name].waiting:
			_is_loud = _is_loud or absf(sample) > 0.01
	var is_over := _asked == 2 and _cuts == 1 and _lines == 2 and _words >= WORDS_BEFORE_BRIBE
	if is_over or _clock > PATIENCE_S:
		print("loud\t%s" % _is_loud)
		return true
	return false
